/*
 * What each route leaves behind: how many more of Perl's values there are after a request than before it, which is a
 * counter of Perl's, and how many more bytes of memory the process has for itself. The latter the kernel tells, for the
 * price of two system calls, so only some requests are measured: at most twenty a second, or all while somebody looks for
 * leaks. The cells are in shared memory, where the front reads them (crates/wire/src/growth.rs).
 */
#include "howdah.h"
#include "leaks.h"
#include "script.h"

#include <fcntl.h>
#include <unistd.h>

#define REST_NS 50000000 /* between two requests that are measured */

static int statm = -1;
static long page;
static U64 measured_at;
static struct {
    IV values;
    I64 bytes; /* negative when this request is not measured */
} before;

/* strtoul would look at a page of the locale's for it. */
static I64 take_number(const char **at) {
    I64 number = 0;
    for (; isDIGIT_A(**at); ++*at)
        number = number * 10 + (**at - '0');
    *at += **at == ' ';
    return number;
}

/* Bytes of memory that belong to no file; negative when the kernel does not tell. */
static I64 anonymous(void) {
    char text[128];
    const char *at = text;
    if (statm < 0 && (statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC)) < 0)
        return -1;
    ssize_t length = pread(statm, text, sizeof text - 1, 0);
    if (length <= 0)
        return -1;
    text[length] = '\0';
    take_number(&at); /* what is mapped */
    I64 resident = take_number(&at);
    return (resident - take_number(&at)) * page;
}

/* Once, in the zygote. */
void hd_prepare_growth(void) { page = sysconf(_SC_PAGESIZE); }

/* A worker begins with what it has inherited, and a descriptor of its own. */
void hd_start_growth(void) {
    statm = -1;
    howdah_forget_routes(hd.index);
}

/* For a process that is a worker no more: its own workers look by themselves. */
void hd_end_growth_looks(void) {
    if (statm >= 0)
        close(statm);
    statm = -1;
}

/* Perl's values, but for those that wait for whatever request comes next: how many these are depends on the one before. */
static IV count_values(pTHX) {
    return PL_sv_count - hd_count_kept() - hd_count_lazy() - hd_count_variables(aTHX);
}

/* A request begins at that time. */
void hd_begin_growth(pTHX_ U64 now) {
    bool measure = hd_leaks.tracking || now - measured_at >= REST_NS;
    before.values = count_values(aTHX);
    before.bytes = measure ? anonymous() : -1;
    if (measure)
        measured_at = now;
}

/* It has ended, and was of this route. */
void hd_end_growth(pTHX_ U32 route) {
    I64 after = before.bytes < 0 ? -1 : anonymous();
    bool measured = after >= 0;
    howdah_grow(hd.index, route, count_values(aTHX) - before.values, measured, measured ? after - before.bytes : 0);
    hd_count_request(route);
}
