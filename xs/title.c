/*
 * Process titles: what `ps` shows of a worker is the request that it runs, or ran last.
 *
 *     howdah: worker [shop] (req=42) W 127.0.0.1 example.org GET /cart HTTP/1.1
 *
 * The letters are those of the status page: S starting, W busy, _ idle, G leaving.
 *
 * The kernel reads /proc/PID/cmdline out of the process's own memory, where the arguments stood at its start and the
 * environment behind them, which perl has moved away. So a title is some bytes written there: no system call, no
 * allocation. zygote.c prepares it, loop.c and exchange.c write. Perl's own `$0` is kept in the same place, so an
 * application that assigns to it is seen until the next request.
 */
#include "howdah.h"

#include <sys/prctl.h>

/* A longer one, as of an endless path, is cut; so is what does not fit the place. */
#define LONGEST_TITLE 1024

static struct {
    char *area;           /* NULL when there are no titles */
    char *end;            /* where the text must end at the latest */
    char *last_argument;  /* the last byte of what the kernel takes for arguments */
    char *state;          /* the letter of the present title */
    char *prefix;         /* up to the number of requests, harmless */
    size_t prefix_length;
} title;

/* The n-th number from the fields of /proc/self/stat, counted as in proc(5); the name in it may hold anything. */
static UV stat_field(const char *stat, int n) {
    const char *at = strrchr(stat, ')');
    for (int field = 2; at && field < n; field++)
        at = strchr(at + 1, ' ');
    return at ? strtoul(at, NULL, 10) : 0;
}

/* Where the kernel takes the arguments from: false when that cannot be known, or is not where perl has them. */
static bool find_arguments(pTHX_ char **last) {
    char stat[2048];
    FILE *file = fopen("/proc/self/stat", "r");
    size_t length = file ? fread(stat, 1, sizeof stat - 1, file) : 0;
    if (file)
        fclose(file);
    stat[length] = '\0';
    UV start = stat_field(stat, 48), end = stat_field(stat, 49);
    *last = (char *)end - 1;
    return start && start == PTR2UV(PL_origargv[0]) && end > start && end - start <= PL_origalen;
}

/* Once, in the zygote. `name` stands in the brackets; `wanted` is false with --no-proctitle. */
void hd_prepare_title(pTHX_ SV *name, bool wanted) {
    SV *prefix = newSVpvf("howdah: worker [%" SVf "]", SVfARG(name));
    title.prefix = SvPV(prefix, title.prefix_length);
    if (!wanted || PL_origalen < 2 || !find_arguments(aTHX_ & title.last_argument))
        return;
    sv_catpvs(prefix, " (req=");
    title.prefix = SvPV(prefix, title.prefix_length);
    for (char *at = title.prefix; *at; at++)
        if (!isPRINT_A(*at))
            *at = '?';
    title.area = PL_origargv[0];
    title.end = title.area + (PL_origalen < LONGEST_TITLE ? PL_origalen : LONGEST_TITLE) - 1;
}

/* Bytes that are known to be harmless. */
static char *put_plain(char *at, const char *bytes, size_t length) {
    size_t room = title.end - at;
    if (length > room)
        length = room;
    return (char *)memcpy(at, bytes, length) + length;
}

/* Whether none of eight bytes is below 0x20 or above 0x7e. */
static bool are_plain(const char *bytes) {
    const U64 tops = UINT64_C(0x8080808080808080), ones = UINT64_C(0x0101010101010101);
    U64 eight;
    memcpy(&eight, bytes, sizeof eight);
    return !((eight | (eight - 0x20 * ones) | (eight + ones)) & tops);
}

/* Control characters would disturb terminals, and what is not ASCII could pretend to be something else. */
static char *put(char *at, const char *bytes, size_t length) {
    char *end = put_plain(at, bytes, length);
    while (end - at >= 8 && are_plain(at))
        at += 8;
    for (; at < end; at++)
        if ((U8)(*at - 0x20) >= 0x5f)
            *at = '?';
    return end;
}

static char *put_span(char *at, const Span *span) {
    STRLEN length;
    const char *text = hd_find_text(span, &length);
    return put(put_plain(at, " ", 1), text ? text : "-", text ? length : 1);
}

static char *put_number(char *at, U64 number) {
    char digits[20];
    size_t count = 0;
    do
        digits[sizeof digits - ++count] = '0' + number % 10;
    while (number /= 10);
    return put_plain(at, digits + sizeof digits - count, count);
}

static char *put_start(pTHX_ U64 requests, char state) {
    char *at = put_plain(title.area, title.prefix, title.prefix_length);
    at = put_number(at, requests);
    at = put_plain(at, ") ", 2);
    title.state = at < title.end ? at : NULL;
    return put_plain(at, &state, 1);
}

/* Where the last byte of the arguments is not NUL, the kernel takes the text up to its NUL for the title. */
static void end_title(char *at) {
    *at = '\0';
    if (at < title.last_argument)
        *title.last_argument = ' ';
}

/* In the zygote: `$0` as workers are to find it. What `ps` shows stays, as perl is not told. */
void hd_name_workers(pTHX) {
    SV *name = get_sv("0", GV_ADD);
    sv_setpvn(name, title.prefix, title.prefix_length);
    if (title.area)
        sv_catpvs(name, "0) S");
}

/* A new worker. Perl would touch a dozen pages for it. */
void hd_title_worker(pTHX) {
    if (title.area) {
        prctl(PR_SET_NAME, title.prefix);
        end_title(put_start(aTHX_ 0, 'S'));
    } else {
        SvSETMAGIC(get_sv("0", GV_ADD));
    }
}

/* It works on the present request. */
void hd_title_request(pTHX) {
    const RequestRecord *request = hd.now.request;
    if (!title.area)
        return;
    char *at = put_start(aTHX_ HD_LOAD64(hd.cell->requests) + 1, 'W');
    const Span *host = hd_field(STR_WITH_LEN("HTTP_HOST"));
    at = put_span(at, &request->remote_addr);
    at = host && host->length ? put_span(at, host) : put_plain(at, " -", 2);
    at = put_span(at, &request->method);
    at = put_span(at, &request->uri);
    end_title(put_span(at, &request->protocol));
}

/* The rest of the title stays: so `ps` tells what an idle worker did last. */
void hd_title_state(char state) {
    if (title.state && title.state[-1] == ' ' && title.state[-2] == ')') /* else it is the application's */
        *title.state = state;
}
