/*
 * What an operator's command asks of this worker while it serves: loop.c looks between two requests whether a word in the
 * worker's cell has changed (crates/wire/src/inquiry.rs), and comes here when one has.
 *
 * Nothing here may die, or wait for anybody but the front: the next request is already there, perhaps.
 */
#include "howdah.h"

static U64 heard[INQUIRIES];

static void obey(pTHX_ Inquiry inquiry, U64 word) {
    switch (inquiry) {
    case INQUIRY_LEAKS: hd_ask_leaks(word); break;
    case INQUIRY_HEAP: hd_ask_heap(aTHX_ word); break;
    case INQUIRY_WHY: hd_ask_why(aTHX_ word); break;
    case INQUIRY_PROFILE: hd_ask_profile(aTHX_ word); break;
    default:
        if (word)
            hd_answer(inquiry, word, -1, "this worker does not know the question");
    }
}

/* Some word has changed. */
void hd_hear(pTHX) {
    hd.asks = HD_LOAD64(hd.cell->asks);
    for (int inquiry = 0; inquiry < INQUIRIES; inquiry++) {
        U64 word = HD_LOAD64(hd.cell->asked[inquiry]);
        if (word == heard[inquiry] || word >> 32 > INQUIRY_SERIALS)
            continue;
        heard[inquiry] = word;
        obey(aTHX_ inquiry, word);
    }
}

/* For a process that is this worker no more: its own workers have been asked nothing. */
void hd_forget_asked(void) { Zero(heard, INQUIRIES, U64); }
