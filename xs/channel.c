/*
 * The socket between this worker and each front thread: packets of one `Message`, perhaps with bytes behind it and a
 * descriptor beside it. Used for what shared memory cannot carry: descriptors and interim responses.
 */
#include "howdah.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

/* Before a packet is sent again that the kernel has refused to pass. */
#define AGAIN_MS 10
#define MOST_TRIES 20

/* One ancillary message with one descriptor. */
union descriptor_space {
    char bytes[CMSG_SPACE(sizeof(int))];
    struct cmsghdr aligned;
};

static void attach_descriptor(struct msghdr *header, union descriptor_space *space, int fd) {
    header->msg_control = space->bytes;
    header->msg_controllen = sizeof space->bytes;
    struct cmsghdr *part = CMSG_FIRSTHDR(header);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(part), &fd, sizeof fd);
}

static int detach_descriptor(struct msghdr *header) {
    int fd = -1;
    struct cmsghdr *part = CMSG_FIRSTHDR(header);
    if (part && part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_RIGHTS)
        memcpy(&fd, CMSG_DATA(part), sizeof fd);
    return fd;
}

/* Whether a packet that the kernel has not taken may be in a moment, when it has memory again. Waits for that: zygotes wait for
 * nothing but orders, and workers for answers. */
bool hd_try_again(int error) {
    if (error == ENOBUFS || error == ENOMEM)
        poll(NULL, 0, AGAIN_MS);
    return error == EINTR || error == ENOBUFS || error == ENOMEM;
}

/* The same of a packet with a descriptor, of which too many may be on their way between this user's processes. That goes by soon, or is
 * others' doing, for which nobody is to wait for ever. */
static bool may_pass_later(int error, int *tries) {
    if (error != ETOOMANYREFS || --*tries < 0)
        return hd_try_again(error);
    poll(NULL, 0, AGAIN_MS);
    return true;
}

/* Sends a packet, with the descriptor `passed` unless that is -1. False when the front takes none. */
bool hd_try_send(int fd, const Message *message, const char *payload, STRLEN length, int passed) {
    struct iovec parts[2] = {{(void *)message, sizeof *message}, {(void *)payload, length}};
    struct msghdr header = {.msg_iov = parts, .msg_iovlen = length ? 2 : 1};
    union descriptor_space space = {{0}};
    if (passed >= 0)
        attach_descriptor(&header, &space, passed);
    for (int tries = MOST_TRIES; sendmsg(fd, &header, MSG_NOSIGNAL) < 0;)
        if (!may_pass_later(errno, &tries))
            return false;
    return true;
}

void hd_send(pTHX_ int fd, const Message *message, const char *payload, STRLEN length, int passed) {
    if (!hd_try_send(fd, message, payload, length, passed))
        croak("cannot write to the front: %s", Strerror(errno));
}

static ssize_t receive(int fd, struct msghdr *header, int flags) {
    ssize_t length;
    do
        length = recvmsg(fd, header, flags | MSG_CMSG_CLOEXEC);
    while (length < 0 && errno == EINTR);
    return length;
}

/* Takes a packet with nothing behind it, and the descriptor beside it (-1 for none). False when the front is gone. */
bool hd_take_packet(int fd, Message *message, int *got) {
    struct iovec part = {message, sizeof *message};
    union descriptor_space space;
    struct msghdr header = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = space.bytes, .msg_controllen = sizeof space.bytes};
    bool whole = receive(fd, &header, 0) == (ssize_t)sizeof *message;
    *got = whole ? detach_descriptor(&header) : -1;
    return whole;
}

/* The answer may have any length; a look ahead tells which. */
static STRLEN answer_length(int fd) {
    struct msghdr header = {0};
    ssize_t length = receive(fd, &header, MSG_PEEK | MSG_TRUNC);
    return length > (ssize_t)sizeof(Message) ? length - sizeof(Message) : 0;
}

static int read_answer(pTHX_ int fd, Message *answer, SV *unread) {
    STRLEN length = answer_length(fd);
    SV *payload = unread ? unread : sv_newmortal();
    char *bytes = (sv_setpvs(payload, ""), SvGROW(payload, length + 1));
    struct iovec parts[2] = {{answer, sizeof *answer}, {bytes, length}};
    union descriptor_space space;
    struct msghdr header = {
        .msg_iov = parts, .msg_iovlen = 2, .msg_control = space.bytes, .msg_controllen = sizeof space.bytes};
    if (receive(fd, &header, 0) < (ssize_t)sizeof *answer) {
        hd.leaving = LEAVE_ORPHAN;
        croak("the front is gone");
    }
    SvCUR_set(payload, length);
    bytes[length] = '\0';
    return detach_descriptor(&header);
}

/* Before a descriptor is asked for, since one that finds no number here is lost, and with it what it stands for. */
void hd_reserve_descriptor(pTHX_ const char *what) {
    int spare = fcntl(hd_channel(), F_DUPFD_CLOEXEC, 0);
    if (spare < 0)
        croak("%s: the worker has no descriptor left (%s): close files that the application leaves open, or raise the limit of "
              "open files (ulimit -n, systemd's LimitNOFILE=)",
              what, Strerror(errno));
    close(spare);
}

/* The channel to the front thread that has the present slot. */
int hd_channel(void) {
    U32 front = howdah_front(hd.now.slot);
    return hd.channels[front < (U32)hd.fronts ? front : 0];
}

/*
 * Asks the front about the present slot and waits for the answer: its value, where 0 means yes. A descriptor goes
 * into `got` (-1 for none), bytes behind the answer into `unread`.
 */
U64 hd_ask(pTHX_ MessageKind kind, U64 value, const char *payload, STRLEN length, int *got, SV *unread) {
    if (PERL_GET_THX != hd.perl)
        croak("the connection is the business of the thread that serves the request");
    int channel = hd_channel();
    Message question = {kind, hd.now.slot, value}, answer;
    hd_settle();
    hd_send(aTHX_ channel, &question, payload, length, -1);
    do
        *got = read_answer(aTHX_ channel, &answer, unread);
    while ((answer.kind != question.kind || answer.slot != question.slot) && (*got < 0 || close(*got) == 0));
    return answer.value;
}
