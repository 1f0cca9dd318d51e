/*
 * How many objects of each class there are, and closures of each place in the code: counted over all of Perl's memory when
 * somebody begins to look for leaks, again whenever the number of requests has doubled, and at the end. That finds what
 * leaks.c cannot note: what C code blesses, and what is no object. Closures share their code, which says where they stand;
 * objects say nothing but their class.
 */
#include "howdah.h"
#include "control.h"
#include "leaks.h"

#include "census.h"

/* Powers of two. A large application has some thousand closures; what is above three quarters of the most is not counted. */
#define FEWEST_KINDS ((size_t)1 << 12)
#define MOST_KINDS ((size_t)1 << 16) /* 2 MB */

static struct hd_kind *kinds;
static size_t size, used;
static U32 marks[2]; /* requests at the two last counts before the end */
static enum hd_count now;
static const HV *sought;
static bool is_there;

void hd_each_sv(pTHX_ void (*look)(pTHX_ SV *sv)) {
    for (SV *arena = PL_sv_arenaroot; arena; arena = (SV *)SvANY(arena))
        for (SV *sv = arena + 1, *end = &arena[SvREFCNT(arena)]; sv < end; sv++)
            if (SvTYPE(sv) != (svtype)SVTYPEMASK && SvREFCNT(sv))
                look(aTHX_ sv);
}

/* The kind of this key, or the free one where it would be. */
static struct hd_kind *place_of(const void *key) {
    size_t at = (PTR2UV(key) >> 4) * 0x9E3779B97F4A7C15u >> 40 & (size - 1);
    while (kinds[at].key && kinds[at].key != key)
        at = (at + 1) & (size - 1);
    return &kinds[at];
}

static bool grow(void) {
    const size_t before = size, wanted = size ? size * 2 : FEWEST_KINDS;
    struct hd_kind *smaller = kinds, *larger = wanted > MOST_KINDS ? NULL : calloc(wanted, sizeof *larger);
    if (!larger)
        return false;
    kinds = larger;
    size = wanted;
    for (size_t at = 0; at < before; at++)
        if (smaller[at].key)
            *place_of(smaller[at].key) = smaller[at];
    free(smaller);
    return true;
}

/* NULL when there is no room for another. */
static struct hd_kind *find(const void *key) {
    struct hd_kind *kind = size ? place_of(key) : NULL;
    if (kind && kind->key)
        return kind;
    if (used >= size / 4 * 3 && !grow())
        return NULL;
    kind = place_of(key);
    kind->key = key;
    used++;
    return kind;
}

static bool is_closure(const SV *sv) {
    const CV *cv = (const CV *)sv;
    return SvTYPE(sv) == SVt_PVCV && CvCLONED(cv) && !CvISXSUB(cv) && CvROOT(cv);
}

static void count(pTHX_ SV *sv) {
    struct hd_kind *kind = NULL;
    if (SvOBJECT(sv) && SvTYPE(sv) != SVt_PVCV)
        kind = find(SvSTASH(sv));
    else if (is_closure(sv) && (kind = find(CvROOT((CV *)sv))))
        kind->code = (CV *)sv;
    if (kind)
        kind->count[now]++;
}

static void take(pTHX_ enum hd_count which) {
    now = which;
    for (size_t i = 0; i < size; i++)
        kinds[i].count[which] = 0;
    hd_each_sv(aTHX_ count);
}

void hd_begin_census(void) {
    dTHX;
    if (kinds)
        memset(kinds, 0, size * sizeof *kinds);
    used = 0;
    marks[0] = marks[1] = 0;
    take(aTHX_ HD_AT_START);
    for (size_t i = 0; i < size; i++)
        kinds[i].count[HD_BEFORE] = kinds[i].count[HD_HALFWAY] = kinds[i].count[HD_AT_START];
}

/* So many requests have been run. */
void hd_count_heads(U32 requests) {
    if (requests & (requests - 1))
        return;
    dTHX;
    for (size_t i = 0; i < size; i++)
        kinds[i].count[HD_BEFORE] = kinds[i].count[HD_HALFWAY];
    marks[0] = marks[1];
    marks[1] = requests;
    take(aTHX_ HD_HALFWAY);
}

void hd_end_census(pTHX) { take(aTHX_ HD_AT_END); }

/* The next kind behind `kind`, which is NULL for the first one. */
const struct hd_kind *hd_next_kind(const struct hd_kind *kind) {
    for (kind = kind ? kind + 1 : kinds; kind < kinds + size; kind++)
        if (kind->key && kind->count[HD_AT_END])
            return kind;
    return NULL;
}

/* Of what was there at some time about the middle of so many requests; `at` is that time. */
enum hd_count hd_middle(U32 requests, U32 *at) {
    bool late = requests < marks[1] + marks[1] / 2;
    *at = marks[!late];
    return late ? HD_BEFORE : HD_HALFWAY;
}

static void compare(pTHX_ SV *sv) {
    PERL_UNUSED_CONTEXT;
    is_there = is_there || (SvOBJECT(sv) && SvSTASH(sv) == sought);
}

/* Whether there is an object of this very class. Looks through all of Perl's memory. */
bool hd_has_object(pTHX_ SV *class) {
    sought = gv_stashsv(class, 0);
    is_there = false;
    if (sought)
        hd_each_sv(aTHX_ compare);
    return is_there;
}
