/*
 * A response body that is an array of strings. Called by response.c once the header lines stand at the start of the
 * ring; what fits the ring goes out in one piece with the head and its Content-Length.
 */
#include "howdah.h"

/* Elements of a body that is sent from where it is. */
#define MOST_RUNS 128

static const char *element(pTHX_ AV *body, SSize_t index, STRLEN *length) {
    SV **found = av_fetch(body, index, 0);
    if (found)
        return hd_bytes(aTHX_ *found, length, "body");
    *length = 0;
    return "";
}

static U64 length_from(pTHX_ AV *body, SSize_t index) {
    U64 total = 0;
    for (STRLEN length; index <= av_len(body); index++, total += length)
        (void)element(aTHX_ body, index, &length);
    return total;
}

/* Copies elements behind the head while they fit. Returns the first that does not. */
static SSize_t fill(pTHX_ AV *body, uintptr_t *used, uintptr_t room, char *ring) {
    SSize_t index = 0;
    for (STRLEN length; index <= av_len(body); index++, *used += length) {
        const char *bytes = element(aTHX_ body, index, &length);
        if (length > room - *used)
            break;
        hd_copy(ring + *used, bytes, length);
    }
    return index;
}

/* While there is still time for a 500. */
static void check_chunks(pTHX_ AV *body) {
    STRLEN length;
    for (SSize_t index = 0; index <= av_len(body); index++) {
        const char *at = element(aTHX_ body, index, &length), *end = at + length;
        for (STRLEN run; (run = hd_dechunk(aTHX_ &at, end)) > 0;)
            at += run;
    }
    hd_end_dechunk(aTHX);
    hd_start_dechunk();
}

static void send_rest(pTHX_ AV *body, SSize_t index) {
    for (STRLEN length; index <= av_len(body); index++) {
        const char *bytes = element(aTHX_ body, index, &length);
        hd_put(aTHX_ bytes, length);
    }
}

/* The elements where they lie, when looking at them runs no code and changes nothing; 0 when that is not so. */
static U64 find_runs(pTHX_ AV *body, struct iovec *runs) {
    U64 total = 0;
    for (SSize_t index = 0; index <= av_len(body); index++) {
        SV **found = av_fetch(body, index, 0);
        if (!found || !SvPOK(*found) || SvGMAGICAL(*found) || SvUTF8(*found))
            return 0;
        runs[index] = (struct iovec){SvPVX(*found), SvCUR(*found)};
        total += SvCUR(*found);
    }
    return total;
}

static void send_behind(pTHX_ AV *body, U64 sent) {
    SSize_t index = 0;
    for (STRLEN length; index <= av_len(body); index++, sent -= length) {
        const char *bytes = element(aTHX_ body, index, &length);
        if (sent >= length)
            continue;
        hd_put(aTHX_ bytes + sent, length - sent);
        break;
    }
    send_rest(aTHX_ body, index + 1);
}

/* Sends a large body from where it is. False when it has to go by the ring. */
static bool send_large(pTHX_ AV *body) {
    struct iovec runs[MOST_RUNS];
    U64 total = SvRMAGICAL(body) || av_len(body) >= MOST_RUNS ? 0 : find_runs(aTHX_ body, runs);
    if (!total || !hd_may_borrow(total))
        return false;
    hd_default_length(total);
    send_behind(aTHX_ body, hd_send_borrowed(aTHX_ runs, av_len(body) + 1));
    return true;
}

void hd_send_array(pTHX_ AV *body) {
    if (send_large(aTHX_ body))
        return;
    if (hd.now.dechunk && !hd.now.bodyless)
        check_chunks(aTHX_ body);
    struct hd_head *head = &hd.now.head;
    uintptr_t room, used = head->length;
    char *ring = (char *)howdah_room(hd.now.slot, &room);
    SSize_t next = hd.now.bodyless || hd.now.dechunk ? 0 : fill(aTHX_ body, &used, room, ring);
    bool whole = hd.now.bodyless || next > av_len(body);
    hd_default_length(used - head->length + length_from(aTHX_ body, next));
    howdah_produce(hd.now.slot, used);
    hd_publish(0);
    if (!whole)
        send_rest(aTHX_ body, next);
}
