/*
 * Maps the segment that the front shares with its workers. zygote.c calls this when the zygote starts, and again when the
 * front replaces a damaged segment; workers forked then inherit the mapping.
 */
#include "howdah.h"

#include <sys/mman.h>
#include <sys/stat.h>

static void *mapped;
static size_t mapped_length;

static void keep(void *base, size_t length) {
    if (mapped)
        munmap(mapped, mapped_length);
    mapped = base;
    mapped_length = length;
}

void hd_map_segment(pTHX_ int fd) {
    struct stat status;
    if (fstat(fd, &status) != 0)
        croak("cannot look at the shared segment: %s", Strerror(errno));
    void *base = mmap(NULL, status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (base == MAP_FAILED)
        croak("cannot map the shared segment of %" IVdf " bytes: %s", (IV)status.st_size, Strerror(errno));
    switch (howdah_attach(base, status.st_size)) {
    case 0: keep(base, status.st_size); return;
    case 1: croak("front and Perl modules are of different versions of Howdah; install both anew");
    case 3: croak("the shared segment is damaged: a worker has written over its header");
    default: croak("the shared segment is cut short");
    }
}
