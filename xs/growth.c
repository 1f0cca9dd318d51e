/*
 * What each route leaves behind: how many more of Perl's values there are after a request than before it, which is a
 * counter of Perl's, and how many more bytes of memory the process has for itself. The latter the kernel tells, for the
 * price of two system calls, so only some requests are measured: at most twenty a second, or all while somebody looks for
 * leaks. The cells are in shared memory, where the front reads them (crates/wire/src/growth.rs).
 */
#include "howdah.h"
#include "leaks.h"

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

/* Bytes of memory that belong to no file; negative when the kernel does not tell. */
static I64 anonymous(void) {
    char text[128], *at = text;
    if (statm < 0 && (statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC)) < 0)
        return -1;
    ssize_t length = pread(statm, text, sizeof text - 1, 0);
    if (length <= 0)
        return -1;
    text[length] = '\0';
    strtoul(at, &at, 10);
    I64 resident = strtoul(at, &at, 10);
    return (resident - (I64)strtoul(at, &at, 10)) * page;
}

/* A worker begins with what it has inherited, and a descriptor of its own. */
void hd_start_growth(void) {
    statm = -1;
    page = sysconf(_SC_PAGESIZE);
    howdah_forget_routes(hd.index);
}

/* For a process that is a worker no more: its own workers look by themselves. */
void hd_end_growth_looks(void) {
    if (statm >= 0)
        close(statm);
    statm = -1;
}

/* A request begins at that time. */
void hd_begin_growth(pTHX_ U64 now) {
    bool measure = hd_leaks.tracking || now - measured_at >= REST_NS;
    before.values = PL_sv_count;
    before.bytes = measure ? anonymous() : -1;
    if (measure)
        measured_at = now;
}

/* It has ended, and was of this route. */
void hd_end_growth(pTHX_ U32 route) {
    I64 after = before.bytes < 0 ? -1 : anonymous();
    bool measured = after >= 0;
    howdah_grow(hd.index, route, PL_sv_count - before.values, measured, measured ? after - before.bytes : 0);
    hd_count_request(route);
}
