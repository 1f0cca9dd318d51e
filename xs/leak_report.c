/*
 * What leaks.c and census.c have found, when somebody asks, as the records that crates/find/src/leaks.rs reads. Objects that
 * were blessed at the same place, by the same caller, into the same class, in requests of the same route, are one record.
 *
 *     leaks    requests of this time, objects blessed, 1 if the table was full
 *     object   class, file, line, caller's file, its line, route, objects, requests that made them, of those in the first
 *              half of the requests, in the second
 *     kind     class, file, line (of closures), number at the start, about the middle, at the end; requests at the middle
 */
#include "howdah.h"
#include "leaks.h"

#include "census.h"

static int compare(const void *one, const void *other) {
    const struct hd_noted *a = one, *b = other;
#define BY(field)                                                                                                      \
    if (a->field != b->field)                                                                                          \
        return a->field < b->field ? -1 : 1;
    BY(stash)
    BY(place)
    BY(caller)
    BY(request)
#undef BY
    return 0;
}

static U32 route_of(const struct hd_noted *entry) {
    if (entry->request == hd_leaks.requests) /* it has not ended: the application called exit */
        return hd.now.route;
    return entry->request < hd_leaks.routed ? hd_leaks.routes[entry->request] : 0;
}

static void put(FILE *file, const char *text, char end) { hd_put_field(file, text, strlen(text), end); }

static void put_place(FILE *file, U32 place) {
    put(file, hd_place_file(place), '\t');
    fprintf(file, "%u\t", hd_place_line(place));
}

static void put_class(pTHX_ FILE *file, const HV *stash) {
    const char *name = HvNAME(stash);
    if (name)
        hd_put_field(file, name, HvNAMELEN(stash), '\t');
    else
        put(file, "__ANON__", '\t');
}

/* Those of one route among the entries from `first` up to `end`, which are alike otherwise. */
static void put_route(pTHX_ FILE *file, const struct hd_noted *first, const struct hd_noted *end, U32 route) {
    U32 objects = 0, requests = 0, early = 0, last = 0;
    U32 middle = hd_leaks.first + (hd_leaks.requests - hd_leaks.first) / 2;
    STRLEN length;
    const char *name = hd_route_name(route, &length);
    for (const struct hd_noted *at = first; at < end; at++)
        if (route_of(at) == route) {
            objects++;
            if (!requests || at->request != last) {
                requests++;
                early += at->request < middle;
                last = at->request;
            }
        }
    if (!objects)
        return;
    fputs("object\t", file);
    put_class(aTHX_ file, first->stash);
    put_place(file, first->place);
    put_place(file, first->caller);
    hd_put_field(file, name, length, '\t');
    fprintf(file, "%u\t%u\t%u\t%u\n", objects, requests, early, requests - early);
}

static void put_alike(pTHX_ FILE *file, const struct hd_noted *first, const struct hd_noted *end) {
    U64 seen = 0;
    for (const struct hd_noted *at = first; at < end; at++)
        if (!(seen >> route_of(at) & 1)) {
            seen |= (U64)1 << route_of(at);
            put_route(aTHX_ file, first, end, route_of(at));
        }
}

static void put_objects(pTHX_ FILE *file, struct hd_noted *list, size_t count) {
    qsort(list, count, sizeof *list, compare);
    for (size_t first = 0, end; first < count; first = end) {
        for (end = first + 1; end < count && list[end].stash == list[first].stash
             && list[end].place == list[first].place && list[end].caller == list[first].caller;)
            end++;
        put_alike(aTHX_ file, list + first, list + end);
    }
}

static bool is_statement(const OP *op) { return op->op_type == OP_NEXTSTATE || op->op_type == OP_DBSTATE; }

/* Where the code of a closure begins. */
static U32 place_of_code(const CV *cv) {
    const OP *op = CvSTART(cv);
    for (int steps = 0; op && steps < 8; steps++, op = op->op_next)
        if (is_statement(op))
            return hd_place((const COP *)op);
    return hd_place_of(CvFILE(cv) ? CvFILE(cv) : "", 0);
}

static void put_kinds(pTHX_ FILE *file) {
    U32 at, requests = hd_leaks.requests - hd_leaks.first;
    enum hd_count middle = hd_middle(requests, &at);
    for (const struct hd_kind *kind = NULL; (kind = hd_next_kind(kind));) {
        if (kind->count[HD_AT_END] <= kind->count[HD_AT_START])
            continue;
        fputs("kind\t", file);
        if (kind->code) {
            put(file, "CODE", '\t');
            put_place(file, place_of_code(kind->code));
        } else {
            put_class(aTHX_ file, (const HV *)kind->key);
            fputs("\t0\t", file);
        }
        fprintf(file, "%u\t%u\t%u\t%u\n", kind->count[HD_AT_START], kind->count[middle], kind->count[HD_AT_END], at);
    }
}

/* With `since` only what was blessed this time. */
static void write_leaks(pTHX_ FILE *file, bool since) {
    struct hd_noted *living = malloc((hd_leaks.used + 1) * sizeof *living);
    size_t count = 0;
    for (size_t at = 0; living && at < hd_leaks.size; at++) {
        const struct hd_noted *entry = &hd_leaks.entries[at];
        if (entry->sv && (!since || entry->request >= hd_leaks.first) && hd_is_alive(entry))
            living[count++] = *entry;
    }
    fprintf(file, "leaks\t%u\t%" UVuf "\t%d\n", hd_leaks.requests - hd_leaks.first, (UV)hd_leaks.blessed,
            hd_leaks.full || !living);
    if (living)
        put_objects(aTHX_ file, living, count);
    free(living);
    hd_end_census(aTHX);
    put_kinds(aTHX_ file);
}

/* Answers the program. */
static void report(U64 word) {
    dTHX;
    FILE *file = hd_open_answer();
    if (file)
        write_leaks(aTHX_ file, word & LEAKS_SINCE);
    hd_close_answer(INQUIRY_LEAKS, word, file);
}

/* The program wants something else of the worker than before. */
void hd_ask_leaks(U64 word) {
    if (word & LEAKS_TRACK) {
        hd_track(word);
        return;
    }
    bool ours = word && (hd_leaks.word ^ word) >> 32 == 0;
    if (ours)
        report(word);
    else if (word)
        hd_answer(INQUIRY_LEAKS, word, -1, "it has not begun");
    hd_leaks.tracking = hd_leaks.always;
    hd_leaks.word = 0;
}

/* The worker leaves: whoever waits for its report gets it now. */
void hd_say_last_words(void) {
    if (hd_leaks.tracking && hd_leaks.word)
        hd_ask_leaks(hd_leaks.word & ~(U64)LEAKS_TRACK);
    hd_leaks.tracking = false;
}

/* For the report that a worker prints when it leaves; undef when there is no memory for it. */
SV *hd_tell_leaks(pTHX) {
    char *text = NULL;
    size_t length = 0;
    FILE *file = open_memstream(&text, &length);
    if (!file)
        return &PL_sv_undef;
    write_leaks(aTHX_ file, false);
    SV *told = fclose(file) == 0 ? newSVpvn(text, length) : &PL_sv_undef;
    free(text);
    return told;
}
