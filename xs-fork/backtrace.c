/*
 * USR2 asks the process of a script where it stands: the answer, a Perl backtrace without arguments, goes to standard
 * error, and the process ends by that signal as one that knows nothing of it would. The handler is C and perl does not
 * know it: it is not in %SIG, and it runs while perl waits in a system call or a regular expression. A script that has
 * a handler of its own for USR2 keeps it.
 *
 * It reads perl's memory at any moment, so what it reads may be half written: a fault while it reads ends the answer.
 */
#include "fork.h"

#include <signal.h>
#include <unistd.h>

#define MOST_FRAMES 100

static PerlInterpreter *interpreter;

static struct {
    char bytes[4096];
    size_t length;
} answer;

static void flush(void) {
    if (write(STDERR_FILENO, answer.bytes, answer.length) < 0)
        return; /* nobody listens */
    answer.length = 0;
}

/* Control characters would break the line. */
static void put(const char *text, size_t length) {
    for (; length--; text++) {
        if (answer.length == sizeof answer.bytes)
            flush();
        answer.bytes[answer.length++] = (U8)*text < ' ' ? '?' : *text;
    }
}

static void say(const char *text) { put(text, strlen(text)); }

static void say_number(UV number) {
    char digits[24], *at = digits + sizeof digits;
    do
        *--at = '0' + number % 10;
    while (number /= 10);
    put(at, digits + sizeof digits - at);
}

static void end_line(void) {
    if (answer.length == sizeof answer.bytes)
        flush();
    answer.bytes[answer.length++] = '\n';
}

static void say_place(const COP *cop) {
    const char *file = cop ? CopFILE(cop) : NULL;
    say(" at ");
    say(file ? file : "an unknown place");
    if (file) {
        say(" line ");
        say_number(CopLINE(cop));
    }
    end_line();
}

static void say_name(HV *stash, HEK *name) {
    HEK *package = stash ? HvNAME_HEK(stash) : NULL;
    if (package) {
        put(HEK_KEY(package), HEK_LEN(package));
        say("::");
    }
    put(HEK_KEY(name), HEK_LEN(name));
}

static void say_sub(CV *cv) {
#ifdef CvNAMED
    if (CvNAMED(cv)) {
        say_name(CvSTASH(cv), CvNAME_HEK(cv));
        return;
    }
#endif
    GV *gv = ((XPVCV *)SvANY(cv))->xcv_gv_u.xcv_gv;
    if (gv && isGV_with_GP(gv))
        say_name(GvSTASH(gv), GvNAME_HEK(gv));
    else
        say("a sub");
}

/* False for a frame that is none of the script's: a loop, a block. */
static bool say_frame(const PERL_CONTEXT *frame) {
    switch (CxTYPE(frame)) {
    case CXt_SUB:
    case CXt_FORMAT: say("  in "); say_sub(frame->blk_sub.cv); break;
    case CXt_EVAL: say(CxOLD_OP_TYPE(frame) == OP_REQUIRE ? "  in require" : "  in eval"); break;
    default: return false;
    }
    say(", called");
    say_place(frame->blk_oldcop);
    return true;
}

static void say_frames(const PERL_SI *stack) {
    for (int count = 0; stack; stack = stack->si_prev)
        for (I32 at = stack->si_cxix; at >= 0; at--) {
            count += say_frame(&stack->si_cxstack[at]);
            if (count == MOST_FRAMES)
                return;
        }
}

static void end_by_question(void) {
    flush();
    signal(SIGUSR2, SIG_DFL);
    raise(SIGUSR2);
}

static void give_up(int fault) {
    PERL_UNUSED_VAR(fault);
    say("  (the rest cannot be read)");
    end_line();
    end_by_question();
}

static void tell(int question) {
    dTHXa(interpreter);
    PERL_UNUSED_VAR(question);
    signal(SIGSEGV, give_up);
    signal(SIGBUS, give_up);
    say("perl stands");
    say_place(PL_curcop);
    say_frames(PL_curstackinfo);
    end_by_question();
}

/* From before the script is compiled, since that may hang, too. */
void hf_watch_for_question(pTHX) {
    struct sigaction ours = {.sa_handler = tell};
    interpreter = aTHX;
    /* nothing interrupts the answer but a fault in it, or the end */
    sigfillset(&ours.sa_mask);
    sigdelset(&ours.sa_mask, SIGSEGV);
    sigdelset(&ours.sa_mask, SIGBUS);
    sigaction(SIGUSR2, &ours, NULL);
}
