/*
 * Which objects outlive the request that has made them. When somebody asks for the first time, `bless_noted` takes the place
 * of the operator `bless`, in all code that is there and in what will be compiled; before that a worker pays nothing, and
 * afterwards a branch. While somebody asks, it notes in a table where, when and into which class each object was blessed.
 * Nothing is attached to the object: whether it still lives is found out when the report is made (leak_report.c).
 *
 * An entry is alive while at its address there is an object of its class. The head of a freed object may be used anew: for
 * something else, which is then no object of that class; or for an object, whose own bless writes over the entry. What
 * remains is one that was blessed into the same class by C code, or while nobody asked: it is alive indeed, but counts
 * under the line of its predecessor. Heads are never given back to the system, so that an address can always be read.
 *
 * Objects that C code blesses (DBI handles, file handles) and closures are found by census.c.
 */
#include "howdah.h"
#include "leaks.h"

#define FEWEST_ENTRIES ((size_t)1 << 12)
#define MOST_ENTRIES ((size_t)1 << 20) /* 32 MB */

struct hd_leaks hd_leaks;

static Perl_ppaddr_t bless_plain;
static void *ours; /* the worker's perl: that of a thread goes with its thread, and what it blesses is of no request */

bool hd_is_alive(const struct hd_noted *entry) {
    const SV *sv = entry->sv;
    return SvTYPE(sv) != (svtype)SVTYPEMASK && SvOBJECT(sv) && SvSTASH(sv) == entry->stash;
}

static size_t home(const SV *sv) { return (PTR2UV(sv) >> 4) * 0x9E3779B97F4A7C15u >> 20; }

/* The entry for the address, or the free one where it would be. */
static struct hd_noted *find(struct hd_noted *entries, size_t mask, const SV *sv) {
    size_t at = home(sv) & mask;
    while (entries[at].sv && entries[at].sv != sv)
        at = (at + 1) & mask;
    return &entries[at];
}

/* A table of this size with what is alive of the present one. False when there is no memory for it. */
static bool rebuild(size_t size) {
    struct hd_noted *entries = calloc(size, sizeof *entries);
    size_t used = 0;
    if (!entries)
        return false;
    for (size_t at = 0; at < hd_leaks.size; at++)
        if (hd_leaks.entries[at].sv && hd_is_alive(&hd_leaks.entries[at])) {
            *find(entries, size - 1, hd_leaks.entries[at].sv) = hd_leaks.entries[at];
            used++;
        }
    free(hd_leaks.entries);
    hd_leaks.entries = entries;
    hd_leaks.size = size;
    hd_leaks.used = used;
    return true;
}

/* Room for one more entry: most of a table is soon dead. */
static bool make_room(void) {
    if (hd_leaks.used < hd_leaks.size / 4 * 3)
        return true;
    if (!rebuild(hd_leaks.size ? hd_leaks.size : FEWEST_ENTRIES))
        return false;
    if (hd_leaks.used > hd_leaks.size / 2 && hd_leaks.size < MOST_ENTRIES)
        rebuild(hd_leaks.size * 2);
    return hd_leaks.used <= hd_leaks.size / 2; /* else the next look would come too soon */
}

/* The nearest caller that is the application's own code, when `bless` itself stands in a library. None, when libraries are all
 * that lies between it and the server, which is nobody's caller. */
static U32 find_caller(pTHX) {
    int frames = 0;
    for (const PERL_SI *stack = PL_curstackinfo; stack; stack = stack->si_prev)
        for (I32 at = stack->si_cxix; at >= 0 && frames < 64; at--, frames++) {
            const PERL_CONTEXT *frame = &stack->si_cxstack[at];
            if (CxTYPE(frame) != CXt_SUB && CxTYPE(frame) != CXt_EVAL)
                continue;
            U32 place = hd_place(frame->blk_oldcop);
            if (hd_is_outermost(place))
                return 0;
            if (!hd_is_library(place))
                return place;
        }
    return 0;
}

static void note(pTHX_ SV *reference) {
    SV *sv = SvROK(reference) ? SvRV(reference) : NULL;
    if (!sv || !SvOBJECT(sv))
        return;
    hd_leaks.blessed++;
    hd_leaks.full = hd_leaks.full || !make_room();
    if (hd_leaks.full)
        return;
    struct hd_noted *entry = find(hd_leaks.entries, hd_leaks.size - 1, sv);
    U32 place = hd_place(PL_curcop);
    hd_leaks.used += !entry->sv;
    *entry = (struct hd_noted){.sv = sv, .stash = SvSTASH(sv), .place = place, .request = hd_leaks.requests};
    entry->caller = hd_is_library(place) ? find_caller(aTHX) : 0;
}

/* When nobody asks any more it is a branch and a jump: a call in the last place leaves no frame. */
static OP *bless_noted(pTHX) {
    if (LIKELY(!hd_leaks.tracking))
        return bless_plain(aTHX);
    OP *next = bless_plain(aTHX);
    if (PERL_GET_THX == ours)
        note(aTHX_ * PL_stack_sp);
    return next;
}

static void replace_in(OP *op) {
    for (; op; op = OpSIBLING(op)) {
        if (op->op_type == OP_BLESS && op->op_ppaddr == bless_plain)
            op->op_ppaddr = bless_noted;
        if (op->op_flags & OPf_KIDS)
            replace_in(cUNOPx(op)->op_first);
    }
}

static void replace_in_sub(pTHX_ SV *sv) {
    CV *cv = (CV *)sv;
    if (SvTYPE(sv) == SVt_PVCV && !CvISXSUB(cv) && CvROOT(cv))
        replace_in(CvROOT(cv));
}

/* The first time that somebody asks: in all code that there is, and in what will be compiled. */
static void watch_bless(pTHX) {
    if (bless_plain)
        return;
    ours = PERL_GET_THX;
    bless_plain = PL_ppaddr[OP_BLESS];
    PL_ppaddr[OP_BLESS] = bless_noted;
    hd_each_sv(aTHX_ replace_in_sub);
}

/* After each request: what it has made is of this route. */
void hd_count_request(U32 route) {
    if (LIKELY(!hd_leaks.tracking))
        return;
    U32 now = hd_leaks.requests++;
    if (now >= hd_leaks.routed && now < HD_MOST_ROUTED) {
        U32 wanted = hd_leaks.routed ? hd_leaks.routed * 2 : 1024;
        U8 *routes = realloc(hd_leaks.routes, wanted);
        if (!routes)
            return;
        hd_leaks.routes = routes;
        hd_leaks.routed = wanted;
    }
    if (now < hd_leaks.routed)
        hd_leaks.routes[now] = route;
    hd_count_heads(now + 1 - hd_leaks.first);
}

/* Begins to note. What an earlier time has found stays, and so do its requests. */
void hd_track(U64 word) {
    dTHX;
    watch_bless(aTHX);
    hd_leaks.word = word;
    hd_leaks.first = hd_leaks.requests;
    hd_leaks.blessed = 0;
    hd_leaks.full = false;
    hd_leaks.tracking = true;
    hd_begin_census();
}

bool hd_is_tracking(void) { return hd_leaks.tracking; }

/* In the zygote: its workers are to note from their first request on, for a report at their end. */
void hd_track_always(void) {
    hd_leaks.always = true;
    hd_track(0);
}
