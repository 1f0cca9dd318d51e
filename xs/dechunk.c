/*
 * Undoes chunked coding (RFC 9112 7.1) in a body whose application said `Transfer-Encoding: chunked`, as
 * Plack::Middleware::Chunked does. The framing is the front's; what goes into the ring are plain bytes.
 */
#include "howdah.h"

enum place { SIZE, EXTENSION, DATA, DATA_END, DONE };

static enum place place;
static U64 left;   /* bytes of the present chunk */
static int digits; /* of its size */

void hd_start_dechunk(void) {
    place = SIZE;
    left = 0;
    digits = 0;
}

static void size_ends(pTHX) {
    if (digits == 0)
        croak("the application said Transfer-Encoding: chunked, but its body is not in chunks");
    place = left ? DATA : DONE;
    digits = 0;
}

static void size_digit(pTHX_ char c) {
    if (!isXDIGIT(c) || ++digits > 15)
        croak("the application said Transfer-Encoding: chunked, but its body is not in chunks");
    left = left << 4 | (isDIGIT(c) ? c - '0' : (c | 0x20) - 'a' + 10);
}

static void framing(pTHX_ char c) {
    if (c == '\n' && place == DATA_END)
        place = SIZE;
    else if (c == '\n')
        size_ends(aTHX);
    else if (c == ';')
        place = EXTENSION;
    else if (place == SIZE && c != '\r' && c != ' ')
        size_digit(aTHX_ c);
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
