/*
 * A response body that is an array of strings. Called by response.c once the header lines stand at the start of the
 * ring; what fits the ring goes out in one piece with the head and its Content-Length.
 */
#include "howdah.h"

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
        memcpy(ring + *used, bytes, length);
    }
    return index;
}

static void send_rest(pTHX_ AV *body, SSize_t index) {
    for (STRLEN length; index <= av_len(body); index++) {
        const char *bytes = element(aTHX_ body, index, &length);
        hd_put(aTHX_ bytes, length);
    }
}

void hd_send_array(pTHX_ AV *body) {
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
