/*
 * The zygote's side of the control socket to the supervisor: packets of text with descriptors beside them, and a
 * descriptor that becomes readable when a child has ended. Called by Howdah::Zygote only.
 */
#include "howdah.h"
#include "control.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define MOST_DESCRIPTORS 64
#define LONGEST_PACKET 65536

union descriptors_space {
    char bytes[CMSG_SPACE(sizeof(int) * MOST_DESCRIPTORS)];
    struct cmsghdr aligned;
};

static void push_descriptors(pTHX_ AV *fds, struct msghdr *header) {
    struct cmsghdr *part = CMSG_FIRSTHDR(header);
    if (!part || part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
        return;
    const int *found = (const int *)CMSG_DATA(part);
    size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; i++)
        av_push(fds, newSViv(found[i]));
}

/* The next packet, its descriptors appended to `fds`; undef when the front is gone. */
SV *hd_receive_packet(pTHX_ int fd, AV *fds) {
    SV *packet = sv_2mortal(newSV(LONGEST_PACKET));
    struct iovec part = {SvPVX(packet), LONGEST_PACKET};
    union descriptors_space space;
    struct msghdr header = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = space.bytes, .msg_controllen = sizeof space.bytes};
    ssize_t length;
    do
        length = recvmsg(fd, &header, MSG_CMSG_CLOEXEC);
    while (length < 0 && errno == EINTR);
    if (length <= 0)
        return &PL_sv_undef;
    push_descriptors(aTHX_ fds, &header);
    SvPOK_only(packet);
    SvCUR_set(packet, length);
    *SvEND(packet) = '\0';
    return packet;
}

/* Sends a packet, cut at the longest that the front reads. False when the front is gone. */
bool hd_send_packet(int fd, const char *bytes, STRLEN length) {
    ssize_t sent;
    do
        sent = send(fd, bytes, length < LONGEST_PACKET ? length : LONGEST_PACKET, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent >= 0;
}

static sigset_t child_signal(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    return set;
}

/* From now on the end of a child does not interrupt, but makes the returned descriptor readable. */
int hd_watch_children(void) {
    sigset_t set = child_signal();
    signal(SIGCHLD, SIG_DFL);
    if (sigprocmask(SIG_BLOCK, &set, NULL) != 0)
        return -1;
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Empties the descriptor; the children are still to be waited for. */
void hd_clear_children(int fd) {
    struct signalfd_siginfo info[16];
    while (read(fd, info, sizeof info) > 0)
        ;
}

/* In a worker: children of its own interrupt again. */
void hd_unwatch_children(void) {
    sigset_t set = child_signal();
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}
