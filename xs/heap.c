/*
 * Makes the zygote's memory cheap to inherit. Called by zygote.c before the first fork.
 *
 * A worker pays for each page that it writes to, because the kernel copies it, and for each page that it has, because
 * the fork notes it and the exit takes it back. After an application has been loaded, free memory lies in small pieces
 * all over the heap, and nearly each of a worker's first allocations would cost a page. Here the pieces are used up for
 * good, so what a worker allocates lies together; the zygote's pages with the pieces in them stay shared. Then the
 * kernel is asked to make huge pages of the rest: one note instead of 512.
 */
#include "howdah.h"
#include "control.h"

#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* since Linux 6.1 */
#endif
#ifndef HE_ARENA_ROOT_IX
#define HE_ARENA_ROOT_IX 0 /* younger than what it names */
#endif

#define HUGE_PAGE ((size_t)2 << 20)
#define LARGEST_PIECE 65536
#define SMALLEST_PIECE 24

static void use_up_bodies(pTHX_ svtype type) {
    while (PL_body_roots[type]) {
        SV *unused = newSV_type(type);
        PERL_UNUSED_VAR(unused);
    }
}

static void use_up_hash_entries(pTHX) {
    HV *unused = newHV();
    for (U32 key = 0; PL_body_roots[HE_ARENA_ROOT_IX]; key++)
        (void)hv_store(unused, (const char *)&key, sizeof key, &PL_sv_undef, 0);
}

static void use_up_heads(pTHX) {
    while (PL_sv_root) {
        SV *unused = newSV(0);
        PERL_UNUSED_VAR(unused);
    }
}

/* Whatever malloc would take from below the end of the heap. */
static void use_up_pieces(void) {
#ifdef __GLIBC__
    malloc_trim(0); /* leaves less than a page behind the last piece in use */
    const char *end = (const char *)sbrk(0) - sysconf(_SC_PAGESIZE);
    for (size_t size = LARGEST_PIECE; size >= SMALLEST_PIECE; size -= size > 1024 ? size / 8 & ~(size_t)15 : 16) {
        char *piece;
        while ((piece = malloc(size)) && piece < end)
            ;
        free(piece);
    }
#endif
}

/* Perl's free lists of what requests are made of, then the C library's. */
void hd_use_up_free_memory(pTHX) {
    use_up_bodies(aTHX_ SVt_PV);
    use_up_bodies(aTHX_ SVt_PVIV);
    use_up_bodies(aTHX_ SVt_PVNV);
    use_up_bodies(aTHX_ SVt_PVMG);
    use_up_bodies(aTHX_ SVt_PVAV);
    use_up_bodies(aTHX_ SVt_PVHV);
    use_up_hash_entries(aTHX);
    use_up_heads(aTHX);
    use_up_pieces();
}

static size_t round_up(size_t address) { return (address + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1); }

/* Asks for huge pages in all private memory. Where the kernel cannot or may not, it stays as it was. */
void hd_use_huge_pages(void) {
    size_t start, end;
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
        bool is_private = strstr(line, " rw-p 00000000 00:00 0") && sscanf(line, "%zx-%zx", &start, &end) == 2;
        if (is_private && round_up(start) + HUGE_PAGE <= end)
            madvise((void *)round_up(start), (end - round_up(start)) & ~(HUGE_PAGE - 1), MADV_COLLAPSE);
    }
    if (maps)
        fclose(maps);
}
