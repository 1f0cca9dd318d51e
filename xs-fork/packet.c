/*
 * What the zygote of a script and the host of CGI scripts say to each other: launches are read here, and reports written,
 * by records that crates/wire/src/script.rs declares. docs/cgi-zygote.md tells when each is sent.
 */
#include "fork.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

/* Before a report is sent again that the kernel has refused to pass. */
#define AGAIN_MS 10

static char packet[SCRIPT_PACKET + 1]; /* so that a longer packet shows */

union descriptors_space {
    char bytes[CMSG_SPACE(sizeof(int) * SCRIPT_DESCRIPTORS)];
    struct cmsghdr aligned;
};

static U32 count_strings(const char *text, size_t length) {
    U32 count = 0;
    const char *end = text + length;
    for (const char *at = text; at < end; at++)
        count += *at == 0;
    return count;
}

/* Each has a name. */
static bool are_variables(const char *text, const char *end) {
    for (; text < end; text += strlen(text) + 1)
        if (*text == '=' || !strchr(text, '='))
            return false;
    return true;
}

static const char *behind(const char *text, U32 strings) {
    while (strings--)
        text += strlen(text) + 1;
    return text;
}

/* False when a packet that came with so many descriptors is no launch. */
bool hf_read_launch(struct hf_launch *launch, char *bytes, size_t length, U32 descriptors) {
    LaunchRecord record;
    if (length < sizeof record || length > SCRIPT_PACKET || descriptors != SCRIPT_DESCRIPTORS)
        return false;
    memcpy(&record, bytes, sizeof record);
    char *text = bytes + sizeof record, *end = bytes + length;
    if (record.kind != SCRIPT_LAUNCH || record.length != length - sizeof record || (text < end && end[-1]))
        return false;
    if ((U64)record.arguments + record.variables != count_strings(text, end - text))
        return false;
    launch->arguments = record.arguments;
    launch->variables = record.variables;
    launch->text = text;
    return are_variables(behind(text, record.arguments), end);
}

static U32 take_descriptors(int *fds, struct msghdr *header) {
    struct cmsghdr *part = CMSG_FIRSTHDR(header);
    if (!part || part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
        return 0;
    U32 count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    memcpy(fds, CMSG_DATA(part), count * sizeof(int));
    return count;
}

/* 1 for a launch, 0 for what is none, -1 when the host is gone. */
int hf_receive(struct hf_launch *launch) {
    struct iovec part = {packet, sizeof packet};
    union descriptors_space space;
    struct msghdr header = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = space.bytes, .msg_controllen = sizeof space.bytes};
    ssize_t length;
    do
        length = recvmsg(hf.control, &header, MSG_CMSG_CLOEXEC);
    while (length < 0 && errno == EINTR);
    if (length <= 0)
        return -1;
    U32 count = take_descriptors(launch->fds, &header);
    if (hf_read_launch(launch, packet, length, header.msg_flags & MSG_CTRUNC ? 0 : count))
        return 1;
    while (count--)
        close(launch->fds[count]);
    return 0;
}

/* The parts of a packet; text that makes it too long is cut. */
void hf_write_report(struct iovec parts[2], const ScriptRecord *report, const char *text, size_t length) {
    const size_t most = SCRIPT_PACKET - sizeof *report;
    parts[0] = (struct iovec){(void *)report, sizeof *report};
    parts[1] = (struct iovec){(void *)text, length < most ? length : most};
}

/* Whether the same call may succeed a moment later. */
static bool try_again(int error) {
    if (error == ENOBUFS || error == ENOMEM)
        poll(NULL, 0, AGAIN_MS);
    return error == EINTR || error == ENOBUFS || error == ENOMEM;
}

/* False when the host is gone. */
bool hf_report(ScriptReport kind, I32 value, const char *text, size_t length) {
    const ScriptRecord record = {.kind = kind, .value = value};
    struct iovec parts[2];
    struct msghdr header = {.msg_iov = parts, .msg_iovlen = 2};
    ssize_t sent;
    hf_write_report(parts, &record, text, length);
    do
        sent = sendmsg(hf.control, &header, MSG_NOSIGNAL);
    while (sent < 0 && try_again(errno));
    return sent >= 0;
}
