/*
 * The zygote's side of the control socket to the supervisor: packets in and out, with descriptors beside them, and a
 * descriptor that becomes readable when a child has ended. message.c has what the packets say. Called by Howdah::Zygote
 * and zygote.c only.
 */
#include "howdah.h"
#include "control.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

union descriptors_space {
    char bytes[CMSG_SPACE(sizeof(int) * HD_MOST_DESCRIPTORS)];
    struct cmsghdr aligned;
};

static void take_descriptors(struct hd_packet *packet, struct msghdr *header) {
    struct cmsghdr *part = CMSG_FIRSTHDR(header);
    packet->count = 0;
    if (!part || part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
        return;
    packet->count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    memcpy(packet->fds, CMSG_DATA(part), packet->count * sizeof(int));
}

/* The next packet and its descriptors; false when the front is gone. */
bool hd_receive(int fd, struct hd_packet *packet) {
    char bytes[sizeof(OrderRecord) + 1]; /* so that a longer packet shows */
    struct iovec part = {bytes, sizeof bytes};
    union descriptors_space space;
    struct msghdr header = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = space.bytes, .msg_controllen = sizeof space.bytes};
    ssize_t length;
    do
        length = recvmsg(fd, &header, MSG_CMSG_CLOEXEC);
    while (length < 0 && errno == EINTR);
    if (length <= 0)
        return false;
    take_descriptors(packet, &header);
    Zero(&packet->order, 1, OrderRecord);
    packet->understood = hd_read_order(&packet->order, bytes, length, packet->count);
    return true;
}

void hd_close_all(const int *fds, int count) {
    while (count--)
        close(fds[count]);
}

/* False when the front is gone. What has become of a worker is told nowhere else. */
bool hd_send_report(int fd, const ReportRecord *report, const char *text, size_t length) {
    struct iovec parts[2];
    struct msghdr header = {.msg_iov = parts, .msg_iovlen = 2};
    ssize_t sent;
    hd_write_report(parts, report, text, length);
    do
        sent = sendmsg(fd, &header, MSG_NOSIGNAL);
    while (sent < 0 && hd_try_again(errno));
    return sent >= 0;
}

static sigset_t child_signal(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    return set;
}

/* For a process that somebody else has started, whose mask a fork and exec keep. */
void hd_unblock_signals(void) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* From now on the end of a child does not interrupt, but makes the returned descriptor readable. A handler stays, for workers:
 * libev has one from the time that it is loaded. */
int hd_watch_children(void) {
    sigset_t set = child_signal();
    struct sigaction now;
    if (sigaction(SIGCHLD, NULL, &now) != 0 || now.sa_handler == SIG_IGN || now.sa_flags & SA_NOCLDWAIT)
        signal(SIGCHLD, SIG_DFL);
    if (sigprocmask(SIG_BLOCK, &set, NULL) != 0)
        return -1;
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Empties the descriptor; the children are still to be waited for. */
void hd_clear_children(int fd) {
    struct signalfd_siginfo info; /* one stands for all: a signal that is pending is not queued again */
    while (read(fd, &info, sizeof info) > 0)
        ;
}
