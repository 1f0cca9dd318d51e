/*
 * Delayed and streaming responses (PSGI "Delayed Response and Streaming Body"). The application returned a code
 * reference: it is called with a responder, which takes the response, or its first two elements and gives a writer.
 *
 * Writer and responder bear the serial number of their request; kept beyond it, they die instead of writing into
 * somebody else's response. A response whose writer was not closed ends when the code returns, so that code which
 * dies half-way is never taken for complete.
 */
#include "howdah.h"

/* The request that a writer is for. */
UV hd_serial_of(pTHX_ SV *writer) {
    SV *serial = SvROK(writer) ? SvRV(writer) : NULL;
    if (!serial || !SvIOK(serial))
        croak("write and close are methods of the writer that the responder gives");
    return SvUV_nomg(serial);
}

/* A writer for the present response: a blessed number. */
static SV *new_writer(pTHX) {
    SV *writer = sv_2mortal(newRV_noinc(newSVuv(hd.now.serial)));
    return sv_bless(writer, gv_stashpvs("Howdah::Writer", GV_ADD));
}

/* What a responder runs: $respond->([$status, $headers, $body]), or without body for a writer. */
static void respond(pTHX_ CV *cv) {
    dXSARGS;
    if (items != 1)
        croak("the responder takes one argument, the response");
    hd_check_serial(aTHX_ CvXSUBANY(cv).any_uv);
    hd.now.tried = true;
    hd_respond(aTHX_ ST(0), true);
    SPAGAIN;
    if (!hd.now.streaming)
        XSRETURN_EMPTY;
    ST(0) = new_writer(aTHX);
    hd.now.writer = SvREFCNT_inc_simple_NN(SvRV(ST(0)));
    XSRETURN(1);
}

static CV *new_responder(pTHX) {
    CV *responder = newXS(NULL, respond, __FILE__);
    CvXSUBANY(responder).any_uv = hd.now.serial;
    return (CV *)sv_2mortal((SV *)responder);
}

/* Calls the code with a responder. Dies with it. A child that it has forked, and that comes back, answers nothing. */
void hd_call_delayed(pTHX_ SV *code) {
    dSP;
    CV *responder = new_responder(aTHX);
    PUSHMARK(SP);
    mXPUSHs(newRV_inc((SV *)responder)); /* which the code may write over, as $_[0] */
    PUTBACK;
    call_sv(code, G_VOID | G_DISCARD);
    if (hd.cell && !hd.now.answered && !hd.now.detached)
        croak("the application returned a code reference that %s%s",
              hd.now.tried ? "caught what its responder has died of" : "never called its responder",
              SvREFCNT(responder) > 2 ? ", but keeps it: " HD_RUN_THE_LOOP : "");
}

/* The application has returned, and something of it waits to go on with the response. */
bool hd_keeps_writer(void) {
    return hd.now.writer && SvREFCNT(hd.now.writer) > 1 && hd.now.progress != HD_FINISHED;
}
