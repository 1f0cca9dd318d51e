/*
 * Takes what the application returned or gave to its responder: [status, headers, body]. Called by exchange.c and
 * stream.c; head.c checks the header, then body.c, handle.c or stream.c takes the body.
 *
 * A response of a wrong shape is the application's error: croak names it, and exchange.c answers 500.
 */
#include "howdah.h"

/* Held, since code of the application's that makes a part of the response may let go of the rest. */
static AV *array(pTHX_ SV *sv, const char *what) {
    if (!SvROK(sv) || SvTYPE(SvRV(sv)) != SVt_PVAV)
        croak("%s must be an array reference, not %s", what,
              SvROK(sv) ? sv_reftype(SvRV(sv), true) : SvOK(sv) ? "a plain value" : "undef");
    return (AV *)sv_2mortal(SvREFCNT_inc_simple_NN(SvRV(sv)));
}

static SV *element(pTHX_ AV *triplet, SSize_t index) {
    SV **found = av_fetch(triplet, index, 0), *element = found ? *found : &PL_sv_undef;
    if (UNLIKELY(SvGMAGICAL(element))) {
        sv_2mortal(SvREFCNT_inc_simple_NN(element));
        mg_get(element);
    }
    return element;
}

static void check_count(pTHX_ SSize_t count, bool may_stream) {
    if (count != 3 && !(count == 2 && may_stream))
        croak("the response must have status, headers and body: three elements, not %" IVdf, (IV)count);
}

static void check_first(pTHX) {
    if (hd.now.answered || hd.now.responding || hd.now.progress != HD_NOTHING_OUT)
        croak("the application has already given its response");
}

static void begin(pTHX_ U32 status) {
    if (status < 200)
        croak("the response status is %u: an interim response goes by psgix.informational", status);
    hd.now.bodyless = hd.now.is_head || status == 204 || status == 205 || status == 304;
    hd.now.dechunk = false;
    hd.now.head = (struct hd_head){.status = status, .content_length = -1};
}

static void finish_head(void) {
    struct hd_head *head = &hd.now.head;
    if (head->status == 204)
        head->content_length = -1; /* RFC 9110 8.6 */
    if (hd.now.dechunk) {
        head->content_length = -1; /* RFC 9112 6.2 */
        hd_start_dechunk();
    }
}

static void send_body(pTHX_ SV *body) {
    if (hd.now.progress == HD_FINISHED) /* in a child that a tied array has forked */
        hd_die_of_end(aTHX);
    if (SvROK(body) && SvTYPE(SvRV(body)) == SVt_PVAV && !SvOBJECT(SvRV(body)))
        hd_send_array(aTHX_ array(aTHX_ body, "the response body"));
    else
        hd_send_handle(aTHX_ body);
}

/* It has no body: what follows is another protocol's, and goes by psgix.io or a writer. */
static void switch_protocols(pTHX_ AV *headers, bool streaming) {
    hd_switch_protocols(aTHX_ headers);
    hd.now.streaming = streaming;
    hd.now.answered = true;
}

/* Takes a response; with `may_stream` the body may be missing, which asks for a writer. */
void hd_respond(pTHX_ SV *response, bool may_stream) {
    uintptr_t room;
    check_first(aTHX);
    ENTER; /* conversions and $/ last until the body is in the ring */
    SAVEBOOL(hd.now.responding); /* strings of the application's may be made by code, which cannot answer in between */
    hd.now.responding = true;
    SvGETMAGIC(response);
    AV *triplet = array(aTHX_ response, "the response");
    SSize_t count = av_len(triplet) + 1;
    check_count(aTHX_ count, may_stream);
    U32 status = hd_status(aTHX_ element(aTHX_ triplet, 0));
    AV *headers = array(aTHX_ element(aTHX_ triplet, 1), "the response headers");
    if (status == 101) {
        switch_protocols(aTHX_ headers, count == 2);
        LEAVE;
        return;
    }
    begin(aTHX_ status);
    hd_write_head(aTHX_ &hd.now.head, headers, (char *)howdah_room(hd.now.slot, &room));
    finish_head();
    hd.now.streaming = count == 2;
    if (hd.now.streaming) {
        howdah_produce(hd.now.slot, hd.now.head.length);
        hd_publish(0);
        hd_tell();
    } else
        send_body(aTHX_ element(aTHX_ triplet, 2));
    hd.now.answered = true;
    LEAVE;
}

/* A GET of `path` is to answer instead, of which the front takes care (RFC 3875 6.2.2). */
void hd_redirect(pTHX_ SV *path) {
    STRLEN length;
    uintptr_t room;
    const char *bytes = hd_bytes(aTHX_ path, &length, "the path of a local redirect");
    if (length > RESPONSE_HEAD)
        croak("the path of a local redirect is longer than %d bytes", RESPONSE_HEAD);
    check_first(aTHX);
    begin(aTHX_ 200);
    memcpy(howdah_room(hd.now.slot, &room), bytes, length);
    hd.now.head.length = length;
    howdah_produce(hd.now.slot, length);
    hd_publish(RESPONSE_REDIRECT);
    hd.now.answered = true;
}
