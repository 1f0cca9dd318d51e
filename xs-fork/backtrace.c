/*
 * USR2 asks the process of a script where it stands: the answer, a Perl backtrace without arguments, goes to standard
 * error, and the process ends by that signal as one that knows nothing of it would. The handler is C and perl does not
 * know it: it is not in %SIG, and it runs while perl waits in a system call or a regular expression. A script that has
 * a handler of its own for USR2 keeps it.
 *
 * Where the host asks, the request has taken too long, and TERM takes the place of that end: for all of the group, as
 * for one that was executed, and before the script does anything else. So what it does at its end, it does.
 *
 * It reads perl's memory at any moment, so what it reads may be half written: a fault while it reads ends the answer.
 */
#include "fork.h"
#include "../xs/frames.h"

#include <signal.h>
#include <unistd.h>

/* Where perl has what is read: its variables, whether or not it has threads. */
static struct {
    const OP *const *op;
    COP *const *cop;
    PERL_SI *const *stack;
} perl;

static struct frames_note answer;

static void say_sub(const PERL_CONTEXT *frame) {
    if (CxTYPE(frame) != CXt_EVAL)
        note_sub(&answer, frame->blk_sub.cv);
    else
        note_text(&answer, CxOLD_OP_TYPE(frame) == OP_REQUIRE ? "require" : "eval");
}

static bool say_call(const PERL_CONTEXT *frame) {
    note_text(&answer, "  in ");
    say_sub(frame);
    note_text(&answer, ", called");
    note_place(&answer, place_of_call(frame));
    note_line_end(&answer);
    return true;
}

/* The process that waits for launches: what it has forked are requests. */
static pid_t zygote;

static void say(void) {
    if (write(STDERR_FILENO, answer.bytes, answer.length) < 0) { /* nobody listens */
    }
    answer.length = 0;
}

static void end_by_question(void) {
    sigset_t question;
    sigemptyset(&question);
    sigaddset(&question, SIGUSR2);
    say();
    signal(SIGUSR2, SIG_DFL);
    raise(SIGUSR2);
    sigprocmask(SIG_UNBLOCK, &question, NULL); /* also where a fault has ended the answer */
}

/* TERM is blocked until the handler returns, and then there at once. */
static void end_in_order(int error) {
    say();
    kill(getpgrp() == getpid() ? 0 : getpid(), SIGTERM);
    errno = error; /* what was interrupted may still look at it */
}

static void give_up(int fault) {
    PERL_UNUSED_VAR(fault);
    note_line_end(&answer);
    note_text(&answer, "  (the rest cannot be read)");
    note_line_end(&answer);
    end_by_question();
}

static void tell(int question, siginfo_t *from, void *place) {
    struct sigaction fault = {.sa_handler = give_up}, segv, bus;
    int error = errno;
    bool of_host = from->si_code == SI_USER && from->si_pid == getppid() && getpid() != zygote;
    PERL_UNUSED_VAR(question);
    PERL_UNUSED_VAR(place);
    sigaction(SIGSEGV, &fault, &segv);
    sigaction(SIGBUS, &fault, &bus);
    note_text(&answer, "perl stands");
    note_place(&answer, closest_statement(*perl.cop, *perl.op, false));
    note_line_end(&answer);
    walk_calls(*perl.stack, say_call);
    sigaction(SIGSEGV, &segv, NULL);
    sigaction(SIGBUS, &bus, NULL);
    if (of_host)
        end_in_order(error);
    else
        end_by_question();
}

/* From before the script is compiled, since that may hang, too. */
void hf_watch_for_question(pTHX) {
    struct sigaction ours = {.sa_sigaction = tell, .sa_flags = SA_SIGINFO};
    zygote = getpid();
    perl.op = (const OP *const *)&PL_op;
    perl.cop = (COP *const *)&PL_curcop;
    perl.stack = &PL_curstackinfo;
    /* nothing interrupts the answer but a fault in it, or the end */
    sigfillset(&ours.sa_mask);
    sigdelset(&ours.sa_mask, SIGSEGV);
    sigdelset(&ours.sa_mask, SIGBUS);
    sigaction(SIGUSR2, &ours, NULL);
}
