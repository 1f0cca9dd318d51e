/*
 * A large body on its way from Perl's own memory to the client's socket, without the ring between: body.c asks. The front
 * lends the connection behind the head. From then until it is given back no Perl code runs here, nothing blocks for long,
 * and what was sent is told as it goes, so that the front can go on from there.
 */
#include "howdah.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

/* Bodies from here on are worth the way to the front and back. */
#define LEAST (256 * 1024)
/* So much is sent at a time, so that the front hears how it goes. */
#define PIECE (1024 * 1024)
/* How long a client that takes no more is waited for, each time and in all: the front can do that without a worker. */
#define STALL_MS 10
#define STALLS_NS 1000000000
/* After how long to see whether anybody still wants the response. */
#define LOOK_MS 100

/* Whether the connection may be asked for, for a body of that length behind the head that is now to be published. */
bool hd_may_borrow(U64 length) {
    if (length < LEAST || hd.now.bodyless || hd.now.dechunk || !(HD_LOAD(hd.now.request->flags) & REQUEST_LENDS))
        return false;
    return hd.now.head.content_length < 0 || (U64)hd.now.head.content_length == length;
}

/* The connection; -1 when the front keeps it. An answer that comes too late is known by its ticket. */
static int borrow(pTHX) {
    const U64 ticket = howdah_ticket(hd.now.slot);
    struct pollfd channel = {.fd = hd_channel(), .events = POLLIN};
    while (!HD_LOAD(hd.now.control->abandoned)) {
        Message answer;
        int fd;
        if (poll(&channel, 1, LOOK_MS) <= 0)
            continue;
        if (!hd_take_packet(channel.fd, &answer, &fd)) {
            hd.leaving = LEAVE_ORPHAN;
            croak("the front is gone");
        }
        if (answer.kind == MESSAGE_KIND_LOAN && answer.slot == hd.now.slot && answer.value == ticket)
            return fd;
        if (fd >= 0)
            close(fd);
    }
    return -1;
}

static bool wait_for_client(int fd, U64 *waited) {
    struct pollfd client = {.fd = fd, .events = POLLOUT};
    U64 start = hd_now();
    bool ready = poll(&client, 1, STALL_MS) > 0;
    *waited += hd_now() - start;
    return ready && *waited < STALLS_NS;
}

/* The first run is not empty. */
static ssize_t send_piece(int fd, struct iovec *runs, U32 count) {
    struct iovec first = {.iov_base = runs->iov_base, .iov_len = PIECE};
    struct msghdr message = {.msg_iov = &first, .msg_iovlen = 1};
    U32 fit = 0;
    for (size_t length = 0; fit < count && (length += runs[fit].iov_len) <= PIECE; fit++)
        ;
    if (fit) {
        message.msg_iov = runs;
        message.msg_iovlen = fit;
    }
    return sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void skip(struct iovec **runs, U32 *count, size_t length) {
    for (; *count && length >= (*runs)->iov_len; (*runs)++, (*count)--)
        length -= (*runs)->iov_len;
    if (*count) {
        (*runs)->iov_base = (char *)(*runs)->iov_base + length;
        (*runs)->iov_len -= length;
    }
}

static U64 send_runs(int fd, struct iovec *runs, U32 count) {
    U64 sent = 0, waited = 0;
    skip(&runs, &count, 0);
    while (count && !HD_LOAD(hd.now.control->abandoned)) {
        ssize_t length = send_piece(fd, runs, count);
        if (length > 0) {
            sent += length;
            howdah_sent(hd.now.slot, length);
            skip(&runs, &count, length);
        } else if (errno != EINTR && (errno != EAGAIN || !wait_for_client(fd, &waited)))
            break;
    }
    return sent;
}

/* Publishes the head, asks for the connection, and sends what the client takes of the body: so many bytes are out. */
U64 hd_send_borrowed(pTHX_ struct iovec *runs, U32 count) {
    howdah_produce(hd.now.slot, hd.now.head.length);
    hd_publish(RESPONSE_ASKS);
    hd_tell();
    int fd = borrow(aTHX);
    U64 sent = fd < 0 ? 0 : send_runs(fd, runs, count);
    if (fd >= 0)
        close(fd);
    howdah_add_flags(hd.now.slot, RESPONSE_RETURNED);
    return sent;
}
