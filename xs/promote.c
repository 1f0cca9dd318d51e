/*
 * A worker that leaves a process behind, which is the next zygote (docs/refork.md): what such a process would miss of the
 * worker's, or must not have. Called by Howdah::Worker once the worker serves nobody any more.
 *
 * The worker forks, sends the front one end of a socket by its channel, and ends; so the process has no parent but the front,
 * and no application meets a child that it does not know of. What it inherits of the worker's place is shed here.
 */
#include "howdah.h"
#include "control.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

static bool is_armed(int timer) {
    struct itimerval now;
    return getitimer(timer, &now) == 0 && timerisset(&now.it_value);
}

/* Of timer_create. */
static bool has_timers(void) {
    FILE *timers = fopen("/proc/self/timers", "r");
    bool found = timers && getc(timers) != EOF;
    if (timers)
        fclose(timers);
    return found;
}

/* What a fork leaves out, in words; NULL when there is none of it. */
const char *hd_left_by_fork(void) {
    int threads = hd_count_threads();
    if (threads != 1)
        return threads ? "it has threads" : "it cannot look at /proc/self/task";
    if (hd_has_children())
        return "it has children";
    if (is_armed(ITIMER_REAL) || is_armed(ITIMER_VIRTUAL) || is_armed(ITIMER_PROF) || has_timers())
        return "a timer runs (alarm, setitimer or timer_create)";
    return NULL;
}

/* The front hears why there is no zygote. */
void hd_refuse_promotion(const char *why) { hd_answer(INQUIRY_ZYGOTE, 0, -1, why); }

/* Nothing of the worker's place is left, but for what tells its writers from those of requests to come. */
static void shed(pTHX) {
    hd_close_all(hd.channels, hd.fronts);
    hd_close_all(hd.eventfds, hd.fronts);
    hd_end_growth_looks();
    hd_forget_asked();
    hd_forget_routes();
    hd_forget_env(aTHX);
    hd_sign_errors(-1);
    hd = (struct hd_worker){.app = hd.app, .now.serial = hd.now.serial};
    setpgid(0, 0);
}

/* The control socket, in the process that is left behind; -1 in the worker, whether there is one or not. */
int hd_promote(pTHX) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        hd_refuse_promotion("it has no descriptors for a control socket");
        return -1;
    }
    PERL_FLUSHALL_FOR_CHILD;
    pid_t pid = hd_fork_perl(aTHX);
    if (pid == 0) {
        close(ends[0]);
        shed(aTHX);
        return ends[1];
    }
    if (pid < 0)
        hd_refuse_promotion("it cannot fork");
    else
        hd_answer(INQUIRY_ZYGOTE, 0, ends[0], "");
    hd_close_all(ends, 2);
    return -1;
}

/* As before the first fork: its workers are to share what it has. */
void hd_renew(pTHX) {
    PERL_FLUSHALL_FOR_CHILD;
    hd_use_huge_pages();
}
