/*
 * psgix.informational: an interim response (1xx) such as 103 Early Hints, sent before the final one. The lines go
 * over the channel, because the ring belongs to the final response.
 */
#include "howdah.h"

void hd_inform(pTHX_ SV *status, SV *headers) {
    struct hd_head head = {.content_length = -1};
    IV number = SvIV(status);
    int none;
    if (number < 100 || number > 199 || number == 101)
        croak("psgix.informational takes a status from 100 to 199 without 101, not %" IVdf, number);
    if (hd.now.progress != HD_NOTHING_OUT)
        croak("psgix.informational comes too late: the response has begun");
    SV *lines = sv_2mortal(newSV(RESPONSE_HEAD));
    if (SvROK(headers) && SvTYPE(SvRV(headers)) == SVt_PVAV)
        hd_write_head(aTHX_ &head, (AV *)SvRV(headers), SvPVX(lines));
    (void)hd_ask(aTHX_ MESSAGE_KIND_INTERIM, number, SvPVX(lines), head.length, &none, NULL);
    if (none >= 0)
        close(none);
}
