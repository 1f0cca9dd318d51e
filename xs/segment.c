/*
 * Maps the segment that the front shares with its workers. zygote.c calls this when the zygote starts, and again when the
 * front replaces a damaged segment; workers forked then inherit the mapping.
 */
#include "howdah.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * At one page fault in shared memory the kernel maps what there is between two such addresses, so parts of a slot that are
 * used together lie between two of them (NEIGHBOURS in crates/wire). Where a mapping begins is the kernel's choice.
 */
#define FAULT_AROUND ((size_t)64 << 10)

static void *mapped;
static size_t mapped_length;

static void keep(void *base, size_t length) {
    if (mapped)
        munmap(mapped, mapped_length);
    mapped = base;
    mapped_length = length;
}

/* At a multiple of FAULT_AROUND: in the midst of a larger place, whose rest is given back. */
static char *map(int fd, size_t length) {
    char *place = mmap(NULL, length + FAULT_AROUND, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (place == MAP_FAILED)
        return MAP_FAILED;
    size_t page = sysconf(_SC_PAGESIZE), pages = (length + page - 1) & ~(page - 1);
    size_t before = -PTR2UV(place) & (FAULT_AROUND - 1);
    char *base = place + before;
    bool is_there = mmap(base, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd, 0) == base;
    int error = errno;
    munmap(place, is_there ? before : length + FAULT_AROUND);
    if (is_there)
        munmap(base + pages, FAULT_AROUND - before);
    errno = error;
    return is_there ? base : MAP_FAILED;
}

void hd_map_segment(pTHX_ int fd) {
    struct stat status;
    if (fstat(fd, &status) != 0)
        croak("cannot look at the shared segment: %s", Strerror(errno));
    void *base = map(fd, status.st_size);
    if (base == MAP_FAILED)
        croak("cannot map the shared segment of %" IVdf " bytes: %s", (IV)status.st_size, Strerror(errno));
    switch (howdah_attach(base, status.st_size)) {
    case 0: keep(base, status.st_size); return;
    case 1: croak("front and Perl modules are of different versions of Howdah; install both anew");
    case 3: croak("the shared segment is damaged: a worker has written over its header");
    default: croak("the shared segment is cut short");
    }
}
