/*
 * The route of a request: what requests have in common that are served by the same code, as far as a server can tell. It is
 * what the application says in psgix.howdah.route; else the first segments of the path, where one that has a digit in it or
 * is long stands for itself no more. A worker tells apart as many as there are cells for them; the rest is one, number 0.
 *
 * exchange.c calls this once when a request begins, since its words are the front's again at its end, and once at its end.
 */
#include "howdah.h"

#define SEGMENTS 3
#define LONGEST_SEGMENT 24
#define BUCKETS 256 /* a power of two, several times ROUTES */

static U8 buckets[BUCKETS];
static U32 count = 1;
static char names[ROUTES][ROUTE_NAME];
static U8 lengths[ROUTES];
static SV *key;

void hd_prepare_route(pTHX) { key = newSVpvs_share("psgix.howdah.route"); }

/* The cells of other workers do not have their names yet. */
void hd_forget_routes(void) {
    count = 1;
    Zero(buckets, BUCKETS, U8);
}

const char *hd_route_name(U32 route, STRLEN *length) {
    *length = route ? lengths[route] : 5;
    return route ? names[route] : "other";
}

/* The number of the route of that name, which is a new one as long as there is room. */
static U32 number_of(const char *name, STRLEN length) {
    U32 at = hd_hash(name, length) & (BUCKETS - 1);
    for (; buckets[at]; at = (at + 1) & (BUCKETS - 1))
        if (lengths[buckets[at]] == length && memEQ(names[buckets[at]], name, length))
            return buckets[at];
    if (count == ROUTES || !length)
        return 0;
    memcpy(names[count], name, length);
    lengths[count] = length;
    howdah_name_route(hd.index, count, (const U8 *)name, length);
    return buckets[at] = count++;
}

/* Whether a segment says which route it is, and not which thing of many. */
static bool is_name(const char *start, const char *end) {
    if (end - start > LONGEST_SEGMENT)
        return false;
    for (; start < end; start++)
        if (isDIGIT_A(*start) || !isGRAPH_A(*start))
            return false;
    return true;
}

/* By the path of the request that begins. */
U32 hd_route_of_path(void) {
    STRLEN length = 0;
    const char *at = hd.now.used ? hd_find_text(&hd.now.request->path, &length) : NULL, *end = at + length;
    char folded[ROUTE_NAME];
    STRLEN used = 0;
    if (!at)
        return 0;
    for (int segments = 0; at < end && *at == '/'; segments++) {
        const char *start = ++at;
        while (at < end && *at != '/')
            at++;
        bool last = segments == SEGMENTS, plain = !last && is_name(start, at);
        STRLEN wanted = plain ? at - start : 1;
        if (used + 1 + wanted + 2 > sizeof folded)
            break;
        folded[used++] = '/';
        memcpy(folded + used, plain ? start : "*", wanted);
        used += wanted;
        if (last)
            break;
    }
    return number_of(folded, used);
}

/* By what the application says, if it says anything. */
U32 hd_route(pTHX) {
    SV *value = hd_env_value(aTHX_ key);
    if (!value || !SvPOK(value) || SvGMAGICAL(value))
        return hd.now.route;
    STRLEN length = SvCUR(value);
    return number_of(SvPVX(value), length < ROUTE_NAME ? length : ROUTE_NAME);
}
