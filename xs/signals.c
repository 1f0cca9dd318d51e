/*
 * Signals that mean nothing to a request: a worker that gets TERM or QUIT leaves behind the present one, and HUP, INT, USR1 and
 * PIPE concern others. Perl's own handlers would cut short what waits in the kernel, so that a read of the application fails by
 * EINTR; these have the kernel go on with it.
 */
#include "howdah.h"

static const int TO_LEAVE[] = {SIGQUIT, SIGTERM};
static const int FOR_OTHERS[] = {SIGHUP, SIGINT, SIGPIPE, SIGUSR1};

/* A child of the application, and the zygote, do as any process does. */
static bool is_ours(int signal_number) {
    if (hd.cell)
        return true;
    signal(signal_number, SIG_DFL);
    raise(signal_number);
    return false;
}

static void on_leave(int signal_number) {
    const int before = errno;
    if (is_ours(signal_number))
        hd_leave(LEAVE_SIGNAL);
    errno = before;
}

static void on_nothing(int signal_number) {
    const int before = errno;
    is_ours(signal_number);
    errno = before;
}

/* What perl has for these, once Howdah::Worker has set them; NULL for those that it has not set. */
static const SV *handlers[NSIG];

static const SV *handler_of(pTHX_ int signal_number) {
    SV *handler = PL_psig_ptr[signal_number]; /* SvRV of perls that check themselves does not take a constant */
    return handler && SvROK(handler) ? SvRV(handler) : NULL;
}

/* Whether Howdah::Worker has set it. */
static bool is_of_worker(pTHX_ const SV *handler) {
    return handler && SvTYPE(handler) == SVt_PVCV && CvSTASH((const CV *)handler) == gv_stashpvs("Howdah::Worker", 0);
}

/* Those for which perl has another one are the application's. */
static void set_handler(pTHX_ const int *signals, int count, void (*handler)(int)) {
    struct sigaction ours = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigemptyset(&ours.sa_mask);
    for (int i = 0; i < count; i++)
        if (handlers[signals[i]] && handler_of(aTHX_ signals[i]) == handlers[signals[i]])
            sigaction(signals[i], &ours, NULL);
}

/* Whether a worker must hear it, whatever else goes on. */
bool hd_is_for_worker(int signal_number) {
    return signal_number == SIGQUIT || signal_number == SIGTERM || signal_number == SIGUSR2;
}

/* Where perl has put its own in the place of these for a while. */
void hd_catch_again(pTHX) {
    set_handler(aTHX_ TO_LEAVE, C_ARRAY_LENGTH(TO_LEAVE), on_leave);
    set_handler(aTHX_ FOR_OTHERS, C_ARRAY_LENGTH(FOR_OTHERS), on_nothing);
}

/* In the zygote, once Howdah::Worker has set the handlers that perl is to have, where the application has none of its own. */
void hd_catch_signals(pTHX) {
    for (int number = 1; number < NSIG && number < SIG_SIZE; number++) {
        const SV *handler = handler_of(aTHX_ number);
        handlers[number] = is_of_worker(aTHX_ handler) ? handler : NULL;
    }
    hd_catch_again(aTHX);
}
