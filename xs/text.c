/* Bytes of a Perl string: as PSGI wants them, where characters above 255 are the application's error, and as people read them. */
#include "howdah.h"

static const char *narrowed(pTHX_ const char *bytes, STRLEN *length, const char *what) {
    bool wide = true;
    U8 *narrow = bytes_from_utf8((const U8 *)bytes, length, &wide);
    if (wide)
        croak("Wide character in %s; the application must encode its text, as by Encode::encode('UTF-8', ...)", what);
    SAVEFREEPV(narrow);
    return (const char *)narrow;
}

/* A part of the response: its bytes, valid as long as `sv`, or to the end of the present scope if they had to be converted. Code of
 * the application's may make them, and fork: the child, which comes back here, has no response. */
const char *hd_bytes(pTHX_ SV *sv, STRLEN *length, const char *what) {
    if (UNLIKELY(SvROK(sv) || SvGMAGICAL(sv)))
        sv_2mortal(SvREFCNT_inc_simple_NN(sv)); /* which that code may let go of */
    SvGETMAGIC(sv);
    if (!SvOK(sv)) {
        *length = 0;
        return "";
    }
    const char *bytes = SvPV_nomg_const(sv, *length);
    if (UNLIKELY(hd.now.progress == HD_FINISHED))
        hd_die_of_end(aTHX);
    return SvUTF8(sv) ? narrowed(aTHX_ bytes, length, what) : bytes;
}

/* The string as UTF-8, for messages. A source in UTF-8 that has no `use utf8` makes bytes that are that already. */
const char *hd_utf8(pTHX_ SV *sv, STRLEN *length) {
    const char *bytes = SvPV_const(sv, *length);
    if (SvUTF8(sv) || is_utf8_string((const U8 *)bytes, *length))
        return bytes;
    return SvPVutf8(sv, *length);
}
