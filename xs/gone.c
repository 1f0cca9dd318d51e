/*
 * Clients that leave: the front says so in the slot, and the application hears of it by an exception of class
 * Howdah::ClientGone. Its next write dies with one; with --abort-on-disconnect the front also sends a signal, for which
 * Howdah::Worker has a handler that dies with one wherever the application is.
 */
#include "howdah.h"

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

/* The same from a signal handler, which may run at any time: only where the application's code would die, too. */
void hd_interrupt(pTHX) {
    if (hd.now.serving)
        hd_check_client(aTHX);
}

/* Whether the application died of that. */
bool hd_says_gone(pTHX_ SV *error) { return SvROK(error) && sv_derived_from(error, "Howdah::ClientGone"); }
