/*
 * USR2 asks a worker where in the Perl code it is; the answer goes to the error log, by errors.c. The handler is C and not
 * perl's, which puts a signal off until the statement that it comes in is over: here the answer is where the signal came,
 * and the kernel goes on with a call that it can go on with. The walk through perl's stacks is in frames.h.
 *
 * %SIG has a handler, too, Howdah::Worker's: it is called where the application has given USR2 a handler of its own by
 * `local`, whose end has perl put its own handler in the place of this one.
 */
#include "howdah.h"
#include "frames.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <unistd.h>

/* Where perl has what is read: its variables, whether or not it has threads. */
static struct {
    const OP *const *op;
    COP *const *cop;
    PERL_SI *const *stack;
    char *ours; /* the file of Howdah::Worker, below which nothing is the application's */
} perl;

static struct {
    volatile char busy; /* threads may be asked at the same time */
    pthread_t reader;
    sigjmp_buf way_out;
    const COP *at;     /* the statement that is to be told next */
    struct frames_note note;
} answer;

/* What the worker itself calls has no file. */
static bool is_ours(const COP *cop) {
    const char *file = cop ? CopFILE(cop) : NULL;
    return !file || strEQ(file, HD_NOBODY) || strEQ(file, perl.ours);
}

static void begin_line(const COP *cop) {
    note_text(&answer.note, "   ");
    note_place(&answer.note, cop);
    note_text(&answer.note, ", in ");
}

/* In the words of perl's caller. A script that is kept is a sub, which is hidden from it. */
static bool tell_call(const PERL_CONTEXT *frame) {
    const COP *from = place_of_call(frame);
    const bool is_sub = CxTYPE(frame) != CXt_EVAL, is_last = is_ours(from);
    const bool is_hidden = is_sub && frame->cx_type & CXp_SUB_RE_FAKE;
    if (is_hidden && !is_last)
        return true;
    begin_line(answer.at);
    if (is_hidden)
        note_text(&answer.note, "the main program");
    else if (is_sub)
        note_sub(&answer.note, frame->blk_sub.cv);
    else
        note_text(&answer.note, "(eval)");
    note_line_end(&answer.note);
    answer.at = from;
    return !is_last;
}

static void tell_calls(const PERL_SI *stack) {
    if (is_ours(answer.at))
        return;
    if (walk_calls(stack, tell_call)) {
        begin_line(answer.at);
        note_text(&answer.note, "the main program");
    } else if (!is_ours(answer.at))
        note_text(&answer.note, "    (the rest is left out)");
    note_line_end(&answer.note);
}

static void tell(const PERL_SI *stack, const OP *op) {
    note_text(&answer.note, "howdah: worker ");
    note_number(&answer.note, getpid());
    note_text(&answer.note, " is here:");
    note_line_end(&answer.note);
    answer.at = closest_statement(*perl.cop, op, false);
    tell_calls(stack);
}

/* What was read was about to change. A fault of another thread is none of ours. */
static void give_up(int fault) {
    if (pthread_equal(pthread_self(), answer.reader))
        siglongjmp(answer.way_out, 1);
    signal(fault, SIG_DFL);
}

static void tell_and_write(const PERL_SI *stack, const OP *op) {
    answer.note.length = 0;
    if (sigsetjmp(answer.way_out, 0) == 0)
        tell(stack, op);
    else {
        note_line_end(&answer.note);
        note_text(&answer.note, "    (the rest cannot be read)");
        note_line_end(&answer.note);
    }
    if (sigsetjmp(answer.way_out, 0) == 0)
        hd_write_errors(answer.note.bytes, answer.note.length);
}

static void say_where(const PERL_SI *stack, const OP *op) {
    const struct sigaction guard = {.sa_handler = give_up, .sa_flags = SA_NODEFER};
    struct sigaction segv, bus;
    if (__atomic_test_and_set(&answer.busy, __ATOMIC_ACQUIRE))
        return;
    answer.reader = pthread_self();
    sigaction(SIGSEGV, &guard, &segv);
    sigaction(SIGBUS, &guard, &bus);
    tell_and_write(stack, op);
    sigaction(SIGSEGV, &segv, NULL);
    sigaction(SIGBUS, &bus, NULL);
    __atomic_clear(&answer.busy, __ATOMIC_RELEASE);
}

/* A child of the application, and the zygote, do as any process does. */
static void on_question(int question) {
    const int before = errno;
    if (hd.cell)
        say_where(*perl.stack, *perl.op);
    else {
        signal(question, SIG_DFL);
        raise(question);
    }
    errno = before;
}

static void watch(void) {
    struct sigaction ours = {.sa_handler = on_question, .sa_flags = SA_RESTART};
    /* nothing interrupts the answer but a fault in it */
    sigfillset(&ours.sa_mask);
    sigdelset(&ours.sa_mask, SIGSEGV);
    sigdelset(&ours.sa_mask, SIGBUS);
    sigaction(SIGUSR2, &ours, NULL);
}

/* In the zygote, from Howdah::Worker, once that has set its handlers. */
void hd_prepare_question(pTHX) {
    perl.op = (const OP *const *)&PL_op;
    perl.cop = (COP *const *)&PL_curcop;
    perl.stack = &PL_curstackinfo;
    perl.ours = savepv(CopFILE(PL_curcop));
    watch();
}

/* From the handler in %SIG, which perl calls on a stack of its own. */
void hd_tell_place(pTHX) {
    const PERL_SI *stack = PL_curstackinfo;
    watch();
    if (stack->si_type == PERLSI_SIGNAL)
        stack = stack->si_prev;
    say_where(stack, NULL);
}
