/*
 * What code of the application's dies of when it goes on with a response that nobody waits for.
 *
 * Clients that leave: the front says so in the slot, and the application hears of it by an exception of class
 * Howdah::ClientGone. Its next write dies with one; with --abort-on-disconnect the front also sends a signal, for which
 * Howdah::Worker has a handler that dies with one wherever the application is.
 *
 * Responses that have ended, and those of another request: a serial number tells them apart.
 */
#include "howdah.h"

void hd_die_of_end(pTHX) { croak("the response has already ended"); }

void hd_check_serial(pTHX_ UV serial) {
    if (PERL_GET_THX != hd.perl)
        croak("a response is the business of the thread that serves the request");
    if (serial != hd.now.serial || hd.now.progress == HD_FINISHED)
        hd_die_of_end(aTHX);
}

static bool has_left(void) {
    return hd.cell && hd.now.progress != HD_FINISHED && HD_LOAD(hd.now.control->abandoned);
}

void hd_die_of_client(pTHX) {
    SV *error = sv_2mortal(newRV_noinc(newSVsv(mess("the client has left"))));
    croak_sv(sv_bless(error, gv_stashpvs("Howdah::ClientGone", GV_ADD)));
}

/* Dies when nobody waits for the present response any more. */
void hd_check_client(pTHX) {
    if (has_left())
        hd_die_of_client(aTHX);
}

/* Whether the application is loading a file: a module of which that is interrupted could never be loaded again. */
static bool is_loading(pTHX) {
    for (const PERL_SI *stack = PL_curstackinfo; stack && stack != hd.now.below; stack = stack->si_prev)
        for (I32 at = stack->si_cxix; at >= 0; at--) {
            const PERL_CONTEXT *frame = &stack->si_cxstack[at];
            if (CxTYPE(frame) == CXt_EVAL && CxOLD_OP_TYPE(frame) == OP_REQUIRE)
                return true;
        }
    return false;
}

/* The same from a signal handler, which may run at any time: only where the application's code would die, too. */
void hd_interrupt(pTHX) {
    if (!hd.now.serving || PERL_GET_THX != hd.perl)
        return;
    if (hd.now.held || is_loading(aTHX))
        hd.now.missed = true;
    else
        hd_check_client(aTHX);
}

/* From now on the present request is not interrupted. Dies when it should have been already. */
void hd_hold_interrupts(pTHX) {
    hd.now.held = true;
    if (hd.now.missed)
        hd_check_client(aTHX);
}

/* Whether the application died of that. */
bool hd_says_gone(pTHX_ SV *error) { return SvROK(error) && sv_derived_from(error, "Howdah::ClientGone"); }
