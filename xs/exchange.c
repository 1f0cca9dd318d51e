/*
 * One request from claim to finish. Called by loop.c.
 *
 * Everything that may run Perl code, and so may die, happens in `serve` inside one G_EVAL. Behind it lies the one way
 * out: the slot is finished there, whatever happened, and only then handles are closed and cleanup handlers run, so
 * that the client does not wait for them.
 */
#include "howdah.h"
#include "probes.h"

static CV *serve_cv, *text_cv, *count_cv, *commit_cv;
static SSize_t last_handler; /* of psgix.cleanup.handlers, counted by their own code */
static COP nowhere; /* a place in the code that has no line, for messages about what the application returned */

/* The text of an exception, into the place of the exception. */
static void make_text(pTHX_ CV *cv) {
    dXSARGS;
    STRLEN length;
    PERL_UNUSED_VAR(cv);
    PERL_UNUSED_VAR(items);
    const char *text = SvPV(ST(0), length);
    ST(0) = newSVpvn_flags(text, length, SVs_TEMP);
    XSRETURN(1);
}

/* An exception may be an object whose class makes the text, and may die of that. $@ is put aside meanwhile: where perl is to keep
 * it (G_KEEPERR), it warns of what the class has died of, which may be the same object, in whose text it then never ends. */
static SV *text_of(pTHX_ SV *error) {
    if (!SvROK(error))
        return error;
    dSP;
    const char *class = sv_reftype(SvRV(error), true);
    ENTER;
    PUSHSTACKi(PERLSI_REQUIRE);
    PUSHMARK(SP);
    XPUSHs(sv_mortalcopy(error));
    save_scalar(PL_errgv);
    PUTBACK;
    call_sv((SV *)text_cv, G_EVAL | G_SCALAR);
    SPAGAIN;
    SV *text = POPs;
    PUTBACK;
    POPSTACK;
    LEAVE;
    return SvPOK(text) ? text : sv_2mortal(newSVpvf("an exception of class %s, of which no text can be made", class));
}

/* Puts a message into the log; errors.c adds the request that it belongs to. */
static void tell(pTHX_ SV *message, const char *what, const char *level) {
    SV *line = sv_2mortal(newSVpv(what, 0));
    sv_catsv(line, text_of(aTHX_ message));
    if (!SvCUR(line) || SvPVX(line)[SvCUR(line) - 1] != '\n')
        sv_catpvs(line, "\n");
    hd_put_message(aTHX_ SvPVX(line), SvCUR(line), level);
}

/* An application whose client has left has done nothing wrong. */
static void complain(pTHX_ SV *error, const char *what) {
    if (hd_says_gone(aTHX_ error))
        tell(aTHX_ error, "", "info");
    else
        tell(aTHX_ error, what, "error");
}

/* What is wrong with the present request, in the words of Perl code of ours. */
void hd_complain(pTHX_ SV *error) { complain(aTHX_ error, ""); }

static SV *call_app(pTHX) {
    dSP;
    PUSHMARK(SP);
    mXPUSHs(newRV_inc((SV *)hd.now.env));
    PUTBACK;
    howdah_begin(hd.now.slot);
    call_sv(hd.app, G_SCALAR);
    SPAGAIN;
    SV *response = POPs;
    PUTBACK;
    return response;
}

static void serve(pTHX_ CV *cv) {
    dXSARGS;
    PERL_UNUSED_VAR(cv);
    PERL_UNUSED_VAR(items);
    hd.now.serving = true;
    hd_build_env(aTHX_ hd.now.request);
    SV *response = call_app(aTHX);
    if (!hd.cell) /* in a child, see end_child */
        XSRETURN_YES;
    PL_curcop = &nowhere;
    if (SvROK(response) && SvTYPE(SvRV(response)) == SVt_PVCV)
        hd_call_delayed(aTHX_ response);
    else
        hd_respond(aTHX_ response, false);
    if (hd.now.progress == HD_HEAD_OUT)
        hd_end_dechunk(aTHX);
    XSRETURN_YES;
}

static void count(pTHX_ CV *cv) {
    dXSARGS;
    PERL_UNUSED_VAR(cv);
    PERL_UNUSED_VAR(items);
    last_handler = av_len((AV *)SvRV(ST(0)));
    XSRETURN_EMPTY;
}

/* Leaves after this request, if that is what a value of the application's says, which may be code (tie). */
static void commit(pTHX_ CV *cv) {
    dXSARGS;
    PERL_UNUSED_VAR(cv);
    PERL_UNUSED_VAR(items);
    if (SvROK(ST(0)) || SvTRUE(ST(0)))
        hd.leaving = LEAVE_HARAKIRI;
    XSRETURN_EMPTY;
}

void hd_prepare_exchange(pTHX) {
    serve_cv = newXS(NULL, serve, __FILE__);
    count_cv = newXS(NULL, count, __FILE__);
    commit_cv = newXS(NULL, commit, __FILE__);
    text_cv = newXS(NULL, make_text, __FILE__);
    nowhere = *PL_curcop;
    CopLINE_set(&nowhere, 0);
}

/* The target is only pointed at: whoever looks at it bounds what he reads. */
static void tell_probes(U64 now) {
    const bool known = hd.now.used >= sizeof(RequestRecord);
    const char *target = known ? (const char *)hd.now.request + hd.now.request->uri.offset : NULL;
    const U32 length = known ? hd.now.request->uri.length : 0;
    HD_PROBE_QUEUE_WAIT(hd.index, HD_LOAD64(hd.now.control->queued_at), now);
    HD_PROBE_REQUEST_BEGIN(hd.index, target, length, hd.now.serial);
}

static void begin(pTHX_ U32 slot) {
    UV serial = hd.now.serial + 1;
    U64 now = hd_now();
    const SlotControl *control = howdah_enter(hd.index, slot, now);
    hd.now = (struct hd_exchange){.slot = slot, .serial = serial, .control = control, .progress = HD_NOTHING_OUT};
    hd_begin_growth(aTHX_ now);
    hd_open_request();
    hd.now.route = hd_route_of_path();
    hd.now.is_head = hd.now.used && HD_LOAD(hd.now.request->flags) & REQUEST_IS_HEAD;
    hd_title_request(aTHX);
    tell_probes(now);
}

/* Gives the slot back to the front. What follows may end the process, so the request is counted here. */
void hd_finish(pTHX) {
    if (hd.now.progress == HD_FINISHED)
        return;
    hd_report(aTHX);
    hd_return_input(aTHX);
    hd.now.progress = HD_FINISHED;
    HD_PROBE_REQUEST_END(hd.index, hd.now.head.status, hd.now.serial);
    if (howdah_finish(hd.now.slot, hd.index, hd_now()))
        hd_owe(hd.now.slot);
    if (howdah_count(hd.index) && !hd.leaving)
        hd.leaving = LEAVE_QUOTA;
}

/* Code that was to answer later has given its responder a response with a body, and goes on: what it does then takes nothing
 * back, as it does not behind a writer that was closed. Whether chunks of its own are whole is asked behind it. */
static bool has_said_all(void) { return hd.now.answered && !hd.now.streaming && !hd.now.dechunk; }

/* It has made a body that nobody gets until it was told so. The head is all of the response. */
static bool has_gone_on_in_vain(void) { return hd.now.bodyless && HD_LOAD(hd.now.control->abandoned); }

static void answer_failed(U32 status) {
    const U32 flags = RESPONSE_HEAD_READY | RESPONSE_FAILED;
    if (hd.now.progress == HD_HEAD_OUT && !has_said_all() && !has_gone_on_in_vain())
        howdah_add_flags(hd.now.slot, RESPONSE_BROKEN);
    else if (hd.now.progress == HD_NOTHING_OUT)
        howdah_set_head(hd.now.slot, hd.now.head.status = status, flags, 0, -1);
}

/* The application has left the present request in some other way than by coming back or dying: that is answered 500, or cut. */
void hd_abandon(pTHX_ const char *why) {
    if (hd.now.progress == HD_FINISHED)
        return;
    complain(aTHX_ sv_2mortal(newSVpv(why, 0)), "the application failed: ");
    answer_failed(500);
    hd_finish(aTHX);
    hd_settle();
}

/* A child that the application has forked comes back from it. Its parent answers; it ends as a child does. */
static void end_child(pTHX_ bool returned) {
    if (!returned)
        complain(aTHX_ ERRSV, "a child of the application failed: ");
    my_exit(returned ? 0 : 255);
}

/* The response was 101, and there is nobody who speaks the protocol. */
static void tell_unused(pTHX) {
    tell(aTHX_ sv_2mortal(newSVpvs("the response was 101, but psgix.io was not used before the application returned, so the "
                                   "connection is closed: see docs/websocket.md")),
         "", "warn");
}

static void tell_kept(pTHX) {
    tell(aTHX_ sv_2mortal(newSVpvs("the response ends here, since the application returned without closing its writer, but keeps "
                                   "it: " HD_RUN_THE_LOOP)),
         "", "warn");
}

static void conclude(pTHX_ bool returned) {
    if (!hd.cell)
        end_child(aTHX_ returned);
    bool crowded = !returned && hd_says_crowded(aTHX_ ERRSV); /* of which the front tells the log */
    if (!returned && !crowded)
        complain(aTHX_ ERRSV, "the application failed: ");
    else if (hd.now.switched && !hd.now.detached)
        tell_unused(aTHX);
    else if (returned && !hd.now.detached && hd_keeps_writer())
        tell_kept(aTHX);
    SvREFCNT_dec(hd.now.writer);
    hd.now.writer = NULL;
    /* a 500 would go into the application's own protocol */
    if (hd.now.switched || (!hd.now.answered && hd.now.detached))
        howdah_set_head(hd.now.slot, 0, RESPONSE_DETACHED, 0, -1);
    else if (!returned)
        answer_failed(crowded ? 503 : 500);
    hd_finish(aTHX);
    hd_settle();
}

/* As `call_serve`, for other code of the application's. */
static void call_guarded(pTHX_ SV *code, const char *method, SV *argument, const char *what) {
    dSP;
    ENTER;
    SAVETMPS;
    PUSHSTACKi(PERLSI_REQUIRE);
    PUSHMARK(SP);
    XPUSHs(argument);
    PUTBACK;
    if (method)
        call_method(method, G_EVAL | G_VOID);
    else
        call_sv(code, G_EVAL | G_VOID);
    bool died = HD_HAS_DIED(); /* before its temporary values go, whose destructors may use eval */
    POPSTACK;
    if (!hd.cell)
        end_child(aTHX_ !died);
    if (died)
        complain(aTHX_ ERRSV, what);
    FREETMPS;
    LEAVE;
}

static void close_body(pTHX) {
    if (!hd.now.body)
        return;
    call_guarded(aTHX_ NULL, "close", hd.now.body, "closing the response body failed: ");
    SvREFCNT_dec(hd.now.body);
}

/* The index of the last handler. A list that is tied counts by code of the application's, which may die. */
static SSize_t find_last(pTHX_ AV *list) {
    if (!SvRMAGICAL((SV *)list))
        return av_len(list);
    last_handler = -1;
    call_guarded(aTHX_(SV *) count_cv, NULL, sv_2mortal(newRV_inc((SV *)list)), "psgix.cleanup.handlers cannot be counted: ");
    return last_handler;
}

/* psgix.cleanup.handlers, each with the env; then psgix.harakiri.commit, which they may still set. */
static void clean_up(pTHX) {
    SV *handlers = hd_cleanup_handlers(aTHX);
    if (handlers && SvROK(handlers) && SvTYPE(SvRV(handlers)) == SVt_PVAV) {
        AV *list = (AV *)sv_2mortal(SvREFCNT_inc_simple_NN(SvRV(handlers))); /* a handler may empty the env */
        for (SSize_t i = 0; i <= find_last(aTHX_ list); i++) {
            SV **handler = av_fetch(list, i, 0);
            if (handler)
                call_guarded(aTHX_ * handler, NULL, sv_2mortal(newRV_inc((SV *)hd.now.env)),
                             "a cleanup handler failed: ");
        }
    }
    SV *committed = hd_harakiri_commit(aTHX);
    if (committed)
        call_guarded(aTHX_(SV *) commit_cv, NULL, committed, "psgix.harakiri.commit failed: ");
}

/*
 * Calls the application. False when it has died. On a stack of its own, in which perl looks for the loop that a `next` or
 * `last` belongs to: there is none, so that dies as anywhere else, instead of going round a loop of ours.
 */
static bool call_serve(pTHX) {
    dSP;
    hd.now.below = PL_curstackinfo;
    PUSHSTACKi(PERLSI_REQUIRE);
    PUSHMARK(SP);
    PUTBACK;
    call_sv((SV *)serve_cv, G_EVAL | G_SCALAR);
    hd.now.serving = false;
    SPAGAIN;
    bool returned = SvTRUE(*SP);
    (void)POPs;
    PUTBACK;
    POPSTACK;
    return returned;
}

/* What the application has died of is still to be told, and destructors may use eval. */
static void free_temporaries(pTHX) {
    ENTER;
    save_scalar(PL_errgv);
    FREETMPS;
    LEAVE;
}

/* With a scope of its own: perl leaves the hash of a handle that goes, among other things, to the temporary values. An
 * exception that the application has caught last, or died of, goes with its env, and not when the next request begins. */
static void release_env(pTHX) {
    ENTER;
    SAVETMPS;
    hd_release_env(aTHX);
    if (SvROK(ERRSV))
        CLEAR_ERRSV();
    FREETMPS;
    LEAVE;
}

/* Serves the request in `slot`. */
void hd_exchange(pTHX_ U32 slot) {
    begin(aTHX_ slot);
    ENTER;
    SAVETMPS;
    bool returned = call_serve(aTHX);
    if (hd_borrows_input())
        free_temporaries(aTHX); /* among them references to the env, for which its body would have to be copied */
    conclude(aTHX_ returned);
    close_body(aTHX);
    clean_up(aTHX);
    U32 route = hd_route(aTHX);
    hd_unbuffer_errors(aTHX);
    hd.now.env = NULL; /* what its destruction says belongs to no request any more */
    FREETMPS;
    LEAVE;
    release_env(aTHX);
    if (!hd.cell) /* forked by a destructor */
        end_child(aTHX_ true);
    hd_end_growth(aTHX_ route);
}
