/*
 * psgix.informational: an interim response (1xx) such as 103 Early Hints, sent before the final one. The lines go
 * over the channel, because the ring belongs to the final response. Switching protocols (101) is an interim response to
 * HTTP/1.1, too, though an application gives it as its last one: what follows is another protocol's.
 */
#include "howdah.h"

/* Gives the front's answer. */
static U64 send_lines(pTHX_ IV status, const char *lines, STRLEN length) {
    int none;
    U64 answer = hd_ask(aTHX_ MESSAGE_KIND_INTERIM, status, lines, length, &none, NULL);
    if (none >= 0)
        close(none);
    return answer;
}

void hd_inform(pTHX_ SV *status, SV *headers) {
    struct hd_head head = {.content_length = -1};
    IV number = SvIV(status);
    if (number < 100 || number > 199 || number == 101)
        croak("psgix.informational takes a status from 100 to 199 without 101, not %" IVdf, number);
    if (hd.now.progress != HD_NOTHING_OUT)
        croak("psgix.informational comes too late: the response has begun");
    SV *lines = sv_2mortal(newSV(RESPONSE_HEAD));
    if (SvROK(headers) && SvTYPE(SvRV(headers)) == SVt_PVAV)
        hd_write_head(aTHX_ &head, (AV *)SvRV(headers), SvPVX(lines));
    (void)send_lines(aTHX_ number, SvPVX(lines), head.length);
}

/* The response was [101, headers]. From now on the connection speaks what they name, by psgix.io. */
void hd_switch_protocols(pTHX_ AV *headers) {
    static const char missing[] = "Connection: Upgrade\r\n";
    struct hd_head head = {.status = 101, .content_length = -1};
    if (!hd_field(STR_WITH_LEN("HTTP_UPGRADE")))
        croak("the response status is 101, but the request has no Upgrade field: its client has not asked for another "
              "protocol");
    SV *lines = sv_2mortal(newSV(RESPONSE_HEAD + sizeof missing));
    hd_write_head(aTHX_ &head, headers, SvPVX(lines));
    if (!head.upgrade)
        croak("the response status is 101, but its headers have no Upgrade, which names the protocol");
    if (!head.connection) {
        memcpy(SvPVX(lines) + head.length, missing, sizeof missing - 1);
        head.length += sizeof missing - 1;
    }
    U64 answer = send_lines(aTHX_ 101, SvPVX(lines), head.length);
    if (answer == ANSWER_TOO_MANY)
        hd_die_of_crowd(aTHX);
    if (answer != 0) {
        hd_check_client(aTHX);
        croak("the response status is 101, but the front does not send it: the client speaks HTTP/1.0, or has asked for "
              "another protocol");
    }
    hd.now.switched = true;
}
