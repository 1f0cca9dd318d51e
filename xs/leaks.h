#ifndef HOWDAH_LEAKS_H
#define HOWDAH_LEAKS_H
/* What leaks.c, places.c, census.c and leak_report.c share. */
#include "howdah.h"

#define HD_MOST_ROUTED ((U32)1 << 20) /* requests whose route is kept; later ones count as of none */

/* An object that was blessed while somebody asked. */
struct hd_noted {
    SV *sv;    /* NULL in a free entry */
    HV *stash; /* not to be followed unless it is alive */
    U32 place;
    U32 caller; /* 0 when `place` is the application's own */
    U32 request;
};

struct hd_leaks {
    bool tracking;
    bool always; /* also when nobody asks */
    bool full;   /* nothing more is noted */
    U64 word;     /* what the program wants; 0 when the report goes to the log */
    U32 requests; /* ever, while somebody asked */
    U32 first;    /* the first one of this time */
    U64 blessed;
    struct hd_noted *entries;
    size_t size, used;
    U8 *routes; /* of requests, by their numbers */
    U32 routed;
};

extern struct hd_leaks hd_leaks;

/* leaks.c */
bool hd_is_alive(const struct hd_noted *entry);
void hd_track(U64 word);

/* places.c: a number for each file and line; 0 is none */
U32 hd_place(const COP *cop);
U32 hd_place_of(const char *file, U32 line);
bool hd_is_library(U32 place);
bool hd_is_outermost(U32 place);
const char *hd_place_file(U32 place);
U32 hd_place_line(U32 place);

/* census.c */
void hd_each_sv(pTHX_ void (*look)(pTHX_ SV *sv));
void hd_begin_census(void);
void hd_count_heads(U32 requests);
void hd_end_census(pTHX);

#endif
