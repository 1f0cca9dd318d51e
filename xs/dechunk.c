/*
 * Undoes chunked coding (RFC 9112 7.1) in a body whose application said `Transfer-Encoding: chunked`, as
 * Plack::Middleware::Chunked does. The framing is the front's; what goes into the ring are plain bytes. A body without its last
 * chunk is not complete (RFC 9112 8), which is the application's error as one that is not in chunks is.
 */
#include "howdah.h"

enum place { SIZE, EXTENSION, SIZE_LF, DATA, DATA_END, DATA_LF, DONE };

static enum place place;
static U64 left;   /* bytes of the present chunk */
static int digits; /* of its size */

void hd_start_dechunk(void) {
    place = SIZE;
    left = 0;
    digits = 0;
}

static void refuse(pTHX) {
    croak("the application said Transfer-Encoding: chunked, but its body is not in chunks");
}

static void size_ends(pTHX) {
    if (digits == 0)
        refuse(aTHX);
    place = left ? DATA : DONE;
    digits = 0;
}

static void size_digit(pTHX_ char c) {
    if (!isXDIGIT(c) || ++digits > 15)
        refuse(aTHX);
    left = left << 4 | (isDIGIT(c) ? c - '0' : (c | 0x20) - 'a' + 10);
}

static void size(pTHX_ char c) {
    if (c == '\n')
        size_ends(aTHX);
    else if (place == SIZE_LF)
        refuse(aTHX);
    else if (c == '\r')
        place = SIZE_LF;
    else if (c == ';' || c == ' ' || c == '\t')
        place = EXTENSION;
    else if (place == SIZE)
        size_digit(aTHX_ c);
}

static void data_ends(pTHX_ char c) {
    if (c == '\n')
        place = SIZE;
    else if (c == '\r' && place == DATA_END)
        place = DATA_LF;
    else
        refuse(aTHX);
}

static void framing(pTHX_ char c) {
    if (place < DATA)
        size(aTHX_ c);
    else
        data_ends(aTHX_ c);
}

/* Moves `at` to the next run of data before `end` and returns its length; 0 when there is none. */
STRLEN hd_dechunk(pTHX_ const char **at, const char *end) {
    while (*at < end && place != DATA && place != DONE)
        framing(aTHX_ *(*at)++);
    if (place != DATA)
        return 0;
    STRLEN run = (U64)(end - *at) < left ? (STRLEN)(end - *at) : left;
    left -= run;
    if (left == 0)
        place = DATA_END;
    return run;
}

/* The body has ended. Dies when the last chunk has not come; without a client nobody has asked for it. */
void hd_end_dechunk(pTHX) {
    if (hd.now.dechunk && !hd.now.bodyless && place != DONE && !HD_LOAD(hd.now.control->abandoned))
        croak("the application said Transfer-Encoding: chunked, but its body ends before the last chunk");
}
