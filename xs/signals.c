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

static void set_handler(const int *signals, int count, void (*handler)(int)) {
    struct sigaction ours = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigemptyset(&ours.sa_mask);
    for (int i = 0; i < count; i++)
        sigaction(signals[i], &ours, NULL);
}

/* In the zygote, once Howdah::Worker has set the handlers that perl is to have. */
void hd_catch_signals(void) {
    set_handler(TO_LEAVE, C_ARRAY_LENGTH(TO_LEAVE), on_leave);
    set_handler(FOR_OTHERS, C_ARRAY_LENGTH(FOR_OTHERS), on_nothing);
}
