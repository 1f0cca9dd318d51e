#ifndef HOWDAH_CENSUS_H
#define HOWDAH_CENSUS_H
#include "howdah.h"

/* When it was counted. */
enum hd_count { HD_AT_START, HD_BEFORE, HD_HALFWAY, HD_AT_END, HD_COUNTS };

/* Objects of a class, or closures of a place in the code. */
struct hd_kind {
    const void *key; /* the class, while there are objects of it; or the code */
    CV *code;        /* one of the closures that the last count has found; NULL for objects */
    U32 count[HD_COUNTS];
};

const struct hd_kind *hd_next_kind(const struct hd_kind *kind);
enum hd_count hd_middle(U32 requests, U32 *at);

#endif
