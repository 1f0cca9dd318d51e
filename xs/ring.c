/*
 * The way into the slot's response ring, for body.c, handle.c and stream.c. Bytes go to the front, which owns the
 * connection; when it takes them more slowly than they come, the worker waits here.
 */
#include "howdah.h"

/*
 * memcpy by pieces: for long ones glibc before 2.40 uses `rep movsb` where the processor has it, which takes AMD's Zen 3
 * and 4 three times as long and more, depending on how the two lie (glibc's bug 30994). gcc does the same in the place of a
 * memcpy of which it sees that it is short, but not of a memmove.
 */
void hd_copy(void *to, const void *from, STRLEN length) {
    for (STRLEN piece; length > 0; to = (char *)to + piece, from = (const char *)from + piece, length -= piece) {
        piece = length < 2048 ? length : 2048;
        memmove(to, from, piece);
    }
}

/* Says that status, lines and length are final. The lines must be produced before. */
void hd_publish(U32 flags) {
    struct hd_head *head = &hd.now.head;
    howdah_set_head(hd.now.slot, head->status, head->flags | flags | RESPONSE_HEAD_READY, head->length,
                    head->content_length);
    hd.now.progress = HD_HEAD_OUT;
}

/* The length of the body, known to us, where the application gave none. Who is asked for the head alone may have left the body out,
 * which says nothing of that of a GET (RFC 9110 8.6). */
void hd_default_length(U64 length) {
    struct hd_head *head = &hd.now.head;
    const bool has_none = head->status == 204 || head->status == 304 || (hd.now.is_head && length == 0);
    if (head->content_length < 0 && !has_none && !hd.now.dechunk)
        head->content_length = length;
}

/* What is still to be put. */
struct rest {
    const char *at, *end;
    bool own; /* a copy, to the end of a scope that hd_put leaves */
};

/* Handlers of signals may end the response, or free the string that it is of. */
static void let_handlers_run(pTHX_ struct rest *rest) {
    if (LIKELY(!PL_sig_pending))
        return;
    if (!rest->own) {
        const STRLEN length = rest->end - rest->at;
        char *copy = savepvn(rest->at, length);
        ENTER;
        SAVEFREEPV(copy);
        *rest = (struct rest){copy, copy + length, true};
    }
    PERL_ASYNC_CHECK();
}

/* A child that the application has forked has no response. */
static void put_plain(pTHX_ struct rest *rest, STRLEN length) {
    while (length) {
        uintptr_t room;
        if (hd.now.progress != HD_HEAD_OUT)
            hd_die_of_end(aTHX);
        if (HD_LOAD(hd.now.control->abandoned))
            return;
        U8 *at = howdah_room(hd.now.slot, &room);
        STRLEN part = length < room ? length : room;
        if (part == 0) {
            hd_wait_for_room(aTHX);
            let_handlers_run(aTHX_ rest);
            continue;
        }
        hd_copy(at, rest->at, part);
        howdah_produce(hd.now.slot, part);
        rest->at += part;
        length -= part;
    }
}

/* Adds body bytes behind a published head. They are dropped when the client is gone. */
void hd_put(pTHX_ const char *bytes, STRLEN length) {
    if (hd.now.switched) {
        hd_put_socket(aTHX_ bytes, length);
        return;
    }
    if (hd.now.bodyless) {
        howdah_drop_piece(hd.now.slot, hd_now());
        return;
    }
    struct rest rest = {bytes, bytes + length, false};
    if (!hd.now.dechunk)
        put_plain(aTHX_ &rest, length);
    else
        for (STRLEN run; (run = hd_dechunk(aTHX_ &rest.at, rest.end)) > 0;)
            put_plain(aTHX_ &rest, run);
    if (rest.own)
        LEAVE;
}
