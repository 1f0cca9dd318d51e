/*
 * Runs a CGI script that was compiled into a sub, for Howdah::CGI::Script, and ends it when it calls exit.
 *
 * To the script it must look as if it were the main program. So a stack of its own lies under it, at whose bottom caller
 * finds nobody, its own frame is hidden, and $^S tells of no eval. return at file level, which no program has, ends it. An exit goes up like a death, but no eval of the script stops it: each of them
 * is made to go on, where it would return with an error, to the same exit once more. What C code of other modules guards
 * by an eval of its own does get to see it. exec goes to a child, for the process is the worker's.
 */
#include "script.h"

#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

static struct {
    PERL_SI *stack; /* the script's own; NULL when none is running */
    bool ended;     /* it has called exit */
    bool replaced;  /* ... or exec */
    pid_t pid;      /* of the process that runs it, not a child */
    void *perl;     /* its interpreter, which a thread has not */
    CV *call;
    COP nowhere; /* who called the script: nobody */
    OP again;    /* what an eval of the script goes on to after exit */
    OP *(*exit)(pTHX);
    OP *(*exec)(pTHX);
    OP *(*plain_return)(pTHX);
} script;

/* What a script requires, does or evaluates is compiled anew in each request, and defines what is there already. In a process of its
 * own it would not, so from its second request on perl does not say so. */
static struct {
    CV *filter; /* the handler of warnings while perl compiles */
    SV *before; /* the script's */
    bool wanted, set;
    OP *(*require)(pTHX);
    OP *(*dofile)(pTHX);
    OP *(*entereval)(pTHX);
} quiet;

/* Whether this is a thread that the script has started, with an interpreter of its own. */
bool hd_is_thread(void) { return script.perl != PERL_GET_THX; }

bool hd_script_runs(void) { return script.stack && script.pid == getpid() && !hd_is_thread(); }

/* False when C code, as that which calls DESTROY, has an eval of its own in the way, which would keep the end to itself. */
static bool pass_evals(pTHX) {
    bool all = true;
    for (PERL_SI *stack = PL_curstackinfo; stack && stack != script.stack->si_prev; stack = stack->si_prev)
        for (I32 at = 0; at <= stack->si_cxix; at++) {
            PERL_CONTEXT *frame = &stack->si_cxstack[at];
            if (CxTYPE(frame) != CXt_EVAL)
                continue;
            if (frame->blk_eval.retop)
                frame->blk_eval.retop = &script.again;
            else
                all = false;
        }
    return all;
}

/* From anywhere below the script: it has come to its end. */
void hd_end_script(pTHX) {
    script.ended = true;
    pass_evals(aTHX);
    SvREFCNT_dec(PL_diehook); /* an end is no death */
    PL_diehook = NULL;
    croak_sv(sv_2mortal(newSVpvs("the script has ended\n")));
}

static OP *end_again(pTHX) {
    hd_end_script(aTHX);
    NOT_REACHED;
}

/* Whether nothing that return could return from is between here and the file itself. */
static bool is_at_file_level(pTHX) {
    for (I32 at = cxstack_ix; at >= 0; at--)
        switch (CxTYPE(&cxstack[at])) {
        case CXt_SUB: return cxstack[at].cx_type & CXp_SUB_RE_FAKE;
        case CXt_EVAL:
        case CXt_FORMAT: return false;
        }
    return false;
}

static OP *end_by_return(pTHX) {
    if (PL_curstackinfo == script.stack && is_at_file_level(aTHX) && hd_script_runs()) {
        STATUS_EXIT_SET(0);
        hd_end_script(aTHX);
    }
    return script.plain_return(aTHX);
}

/* The first thing that the sub does which a script became: perl's mark for frames that are none hides it from caller. */
void hd_enter_script(pTHX) {
    if (!script.stack || PL_curstackinfo != script.stack || cxstack_ix < 0 || CxTYPE(CX_CUR()) != CXt_SUB)
        return;
    CX_CUR()->cx_type |= CXp_SUB_RE_FAKE;
#if PERL_VERSION >= 32
    PL_curstackinfo->si_cxsubix = -1; /* where the present sub is, so that perl need not look for it */
#endif
}

/* A child, too, ends where the script does, if it gets there: Howdah::CGI::Keep sees to it that it goes no further. */
static bool is_end_in_reach(pTHX) {
    return script.stack && !hd_is_thread() && (script.pid == getpid() || pass_evals(aTHX));
}

static OP *end_by_exit(pTHX) {
    if (!is_end_in_reach(aTHX))
        return script.exit(aTHX);
    dSP;
    IV status = MAXARG < 1 ? 0 : (MAXARG == 1 && !TOPs) ? 0 : SvIV(TOPs);
    PUTBACK;
    STATUS_EXIT_SET(status & 255);
    hd_end_script(aTHX);
    NOT_REACHED;
}

/* In the child the other program, or the script that goes on without it. */
static OP *end_by_exec(pTHX) {
    if (!hd_script_runs())
        return script.exec(aTHX);
    int status = 0;
    PERL_FLUSHALL_FOR_CHILD;
    pid_t child = fork();
    if (child == 0)
        return script.exec(aTHX);
    if (child < 0)
        croak("cannot fork for exec: %s", Strerror(errno));
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        PERL_ASYNC_CHECK();
    STATUS_NATIVE_CHILD_SET(status);
    script.replaced = true;
    hd_end_script(aTHX);
    NOT_REACHED;
}

static bool says_redefined(pTHX_ SV *warning) {
    const char *text = SvPOK(warning) ? SvPV_nolen_const(warning) : "";
    return (strnEQ(text, "Subroutine ", 11) || strnEQ(text, "Constant subroutine ", 20) || strnEQ(text, "Format ", 7)) &&
           strstr(text, " redefined at ");
}

/* The handler of warnings meanwhile: all others are the script's. */
static void filter_warning(pTHX_ CV *cv) {
    dXSARGS;
    PERL_UNUSED_VAR(cv);
    if (!items || says_redefined(aTHX_ ST(0)))
        XSRETURN_EMPTY;
    if (!quiet.before)
        warn_sv(ST(0));
    else {
        PUSHMARK(MARK); /* with the arguments that are there */
        call_sv(quiet.before, G_VOID | G_DISCARD);
    }
    XSRETURN_EMPTY;
}

/* Also behind a death, by which none of the three returns. */
static void unset_filter(pTHX) {
    if (!quiet.set)
        return;
    quiet.set = false;
    if (PL_warnhook == (SV *)quiet.filter) {
        SvREFCNT_dec(PL_warnhook);
        PL_warnhook = quiet.before;
    } else
        SvREFCNT_dec(quiet.before); /* what was compiled has set another */
}

static OP *compile_quietly(pTHX_ OP *(*plain)(pTHX)) {
    if (!quiet.wanted || quiet.set || !hd_script_runs())
        return plain(aTHX);
    quiet.set = true;
    quiet.before = PL_warnhook;
    PL_warnhook = SvREFCNT_inc((SV *)quiet.filter);
    OP *next = plain(aTHX);
    unset_filter(aTHX);
    return next;
}

static OP *require_quietly(pTHX) { return compile_quietly(aTHX_ quiet.require); }
static OP *do_quietly(pTHX) { return compile_quietly(aTHX_ quiet.dofile); }
static OP *evaluate_quietly(pTHX) { return compile_quietly(aTHX_ quiet.entereval); }

/* Without arguments of its own it sees the caller's @_. */
static void call_below(pTHX_ SV *code) {
    dSP;
    PUSHSTACKi(PERLSI_MAIN);
    script.stack = PL_curstackinfo;
    script.ended = script.replaced = false;
    PL_in_eval = EVAL_INREQUIRE; /* of which $^S tells nothing */
    PL_curcop = &script.nowhere;
    PUSHMARK(SP);
    PUTBACK;
    call_sv(code, G_VOID | G_DISCARD | G_NOARGS);
    POPSTACK;
}

static void call(pTHX_ CV *cv) {
    dXSARGS;
    PERL_UNUSED_VAR(cv);
    PERL_UNUSED_VAR(items);
    call_below(aTHX_ ST(0));
    XSRETURN_EMPTY;
}

/* What hd_end_script took away is in %SIG all the same: END blocks have it, and who looks for what the script has left. */
static void renew_die_hook(pTHX) {
    SV **hook = hv_fetchs(get_hv("SIG", GV_ADD), "__DIE__", false);
    if (hook)
        SvSETMAGIC(*hook);
}

static enum hd_end how_it_ended(pTHX) {
    if (script.ended)
        return script.replaced ? ENDED_BY_EXEC : ENDED_BY_EXIT;
    return HD_HAS_DIED() ? ENDED_BY_DEATH : ENDED_BY_ITSELF;
}

/* How the script has ended: by exit, or return at file level, with $? for its status; else $@ is what it died of. `again` is true when it
 * was run before. */
enum hd_end hd_run_script(pTHX_ SV *code, bool interruptible, bool again) {
    dSP;
    COP *before = PL_curcop;
    const bool held = hd.now.held;
    ENTER;
    SAVETMPS;
    PUSHMARK(SP);
    XPUSHs(code);
    PUTBACK;
    script.pid = getpid();
    script.perl = PERL_GET_THX;
    hd.now.held = held && !interruptible;
    quiet.wanted = again;
    call_sv((SV *)script.call, G_EVAL | G_VOID | G_DISCARD);
    unset_filter(aTHX);
    hd.now.held = held;
    PL_curcop = before;
    script.stack = NULL;
    if (script.ended)
        renew_die_hook(aTHX);
    enum hd_end end = how_it_ended(aTHX);
    if (end != ENDED_BY_DEATH)
        CLEAR_ERRSV();
    FREETMPS;
    LEAVE;
    return end;
}

/* Before the first script is compiled: its calls of exit, exec and return will be ours. */
void hd_prepare_scripts(pTHX) {
    if (script.call)
        return;
    script.call = newXS(NULL, call, __FILE__);
    script.nowhere = *PL_curcop;
    CopLINE_set(&script.nowhere, 0);
    CopFILE_set(&script.nowhere, HD_NOBODY); /* Devel::NYTProf looks at it */
    CopSTASH_set(&script.nowhere, newHV());
    script.again.op_type = OP_EXIT;
    script.again.op_ppaddr = end_again;
    script.exit = PL_ppaddr[OP_EXIT];
    script.exec = PL_ppaddr[OP_EXEC];
    script.plain_return = PL_ppaddr[OP_RETURN];
    quiet.filter = newXS(NULL, filter_warning, __FILE__);
    quiet.require = PL_ppaddr[OP_REQUIRE];
    quiet.dofile = PL_ppaddr[OP_DOFILE];
    quiet.entereval = PL_ppaddr[OP_ENTEREVAL];
    PL_ppaddr[OP_REQUIRE] = require_quietly;
    PL_ppaddr[OP_DOFILE] = do_quietly;
    PL_ppaddr[OP_ENTEREVAL] = evaluate_quietly;
    PL_ppaddr[OP_EXIT] = end_by_exit;
    PL_ppaddr[OP_RETURN] = end_by_return;
    PL_ppaddr[OP_EXEC] = end_by_exec;
}

/* Takes the END blocks that a file has brought off perl's list, the first to run first, and those of its package that an eval of a text
 * or a library has brought. */
AV *hd_take_ends(pTHX_ const char *file, const char *package) {
    AV *taken = newAV();
    const SSize_t count = PL_endav ? AvFILLp(PL_endav) + 1 : 0;
    const HV *stash = count ? gv_stashpv(package, 0) : NULL;
    SSize_t left = 0;
    for (SSize_t i = 0; i < count; i++) {
        SV *block = AvARRAY(PL_endav)[i];
        const char *from = CvFILE((CV *)block);
        AvARRAY(PL_endav)[i] = NULL;
        if ((from && strEQ(from, file)) || (stash && CvSTASH((CV *)block) == stash))
            av_push(taken, newRV_noinc(block));
        else
            AvARRAY(PL_endav)[left++] = block;
    }
    if (count)
        AvFILLp(PL_endav) = left - 1;
    return taken;
}
