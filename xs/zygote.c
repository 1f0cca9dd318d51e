/*
 * The zygote's loop: forks a worker when the front says so and reports how workers end. Called by Howdah::Zygote once
 * the application is loaded.
 *
 * It is in C because every page that the zygote writes between two forks is copied anew after each of them: a loop in
 * Perl wrote to ninety, this one writes to a handful. What a worker needs of its own is done here right after the
 * fork, and the rest before it, for all of them together, in hd_prepare.
 */
#include "howdah.h"
#include "control.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* Workers of a front that is gone get this long to leave before they are killed. */
#define ORPHAN_MS 1000
#define FAILED_TO_FORK 256

static struct {
    int control; /* socket to the front */
    int ended;   /* readable when a child has ended */
    bool stopping;
    int living;
    pid_t children[MAX_WORKERS];
} zygote;

/*
 * Before the first fork: makes what all workers have in common. Socket and input come before the free memory is used
 * up, because to make them frees some.
 */
void hd_prepare(pTHX_ SV *name, bool titles) {
    hd_prepare_title(aTHX_ name, titles);
    pthread_atfork(NULL, NULL, hd_disown);
    hd_prepare_socket(aTHX);
    hd_prepare_input(aTHX);
    hd_use_up_free_memory(aTHX);
    hd_prepare_report(aTHX);
    hd_prepare_env(aTHX);
    hd_prepare_exchange(aTHX);
    PERL_FLUSHALL_FOR_CHILD;
    hd_use_huge_pages();
}

static void tell(const char *format, ...) {
    char text[128];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    hd_send_packet(zygote.control, text, strlen(text));
}

static void note_end(pid_t pid, int status) {
    for (int index = 0; index < MAX_WORKERS; index++)
        if (zygote.children[index] == pid) {
            zygote.children[index] = 0;
            zygote.living--;
            tell("exited %d %d %d", index, (int)pid, status);
            return;
        }
}

static void reap(void) {
    int status;
    pid_t pid;
    hd_clear_children(zygote.ended);
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        note_end(pid, status);
}

static void signal_children(int signal) {
    for (int index = 0; index < MAX_WORKERS; index++)
        if (zygote.children[index])
            kill(zygote.children[index], signal);
}

/* The front is gone: the workers have no one to serve. */
static void end_orphans(void) {
    struct pollfd ended = {.fd = zygote.ended, .events = POLLIN};
    U64 deadline = hd_now() / 1000000 + ORPHAN_MS, now;
    signal_children(SIGTERM);
    while (zygote.living && (now = hd_now() / 1000000) < deadline)
        if (poll(&ended, 1, deadline - now) > 0)
            reap();
    signal_children(SIGKILL);
}

/* As Perl's own fork. */
static pid_t fork_perl(pTHX) {
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    pid_t pid = PerlProc_fork();
    if (pid == 0) { /* a signal for the zygote is none for the worker, and that has children of its own */
        PL_sig_pending = 0;
        Zero(PL_psig_pend, SIG_SIZE, int);
        sigdelset(&before, SIGCHLD);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    return pid;
}

static void run_hook(pTHX_ SV *hook) {
    dSP;
    PUSHMARK(SP);
    call_sv(hook, G_VOID | G_DISCARD | G_EVAL | G_NOARGS);
    PERL_FLUSHALL_FOR_CHILD;
}

static void record(UV index, pid_t pid) {
    if (pid > 0) {
        zygote.children[index] = pid;
        zygote.living++;
        tell("spawned %d %d", (int)index, (int)pid);
    } else {
        tell("log cannot fork worker %d: %s", (int)index, strerror(errno));
        tell("exited %d 0 %d", (int)index, FAILED_TO_FORK);
    }
}

static void begin_worker(pTHX_ UV index, const struct hd_packet *packet) {
    close(zygote.ended);
    PL_srand_called = FALSE; /* the first `rand` chooses a seed */
    hd_sign_errors(index);
    hd_become_worker(aTHX_ index, packet->fds, packet->count);
    hd_title_worker(aTHX);
}

/* True in the new worker. */
static bool spawn(pTHX_ const struct hd_packet *packet, SV *before_fork) {
    UV index = strtoul(packet->text + strlen("spawn "), NULL, 10);
    if (before_fork)
        run_hook(aTHX_ before_fork);
    if (index < MAX_WORKERS && zygote.children[index]) /* the front has noticed its end before us */
        reap();
    pid_t pid = index < MAX_WORKERS ? fork_perl(aTHX) : (errno = EINVAL, -1);
    if (pid == 0) {
        begin_worker(aTHX_ index, packet);
        return true;
    }
    hd_close_all(packet->fds, packet->count);
    record(index, pid);
    return false;
}

/* True in the new worker. */
static bool obey(pTHX_ const struct hd_packet *packet, SV *before_fork) {
    if (strncmp(packet->text, "spawn ", strlen("spawn ")) == 0)
        return spawn(aTHX_ packet, before_fork);
    if (strcmp(packet->text, "stop") == 0)
        zygote.stopping = true;
    else if (strcmp(packet->text, "segment") == 0 && packet->count == 1)
        hd_map_segment(aTHX_ packet->fds[0]);
    else
        tell("log the zygote does not know the command '%.60s'", packet->text);
    hd_close_all(packet->fds, packet->count);
    return false;
}

/* Obeys the front until that is gone, or wants nothing more. True in a child, which is to become a worker. */
bool hd_obey(pTHX_ int control, int ended, SV *before_fork) {
    struct hd_packet packet;
    zygote.control = control;
    zygote.ended = ended;
    while (!zygote.stopping || zygote.living) {
        struct pollfd ready[2] = {{.fd = control, .events = POLLIN}, {.fd = ended, .events = POLLIN}};
        if (poll(ready, 2, -1) < 0)
            PERL_ASYNC_CHECK();
        if (ready[1].revents)
            reap();
        if (!ready[0].revents)
            continue;
        if (!hd_receive(control, &packet)) {
            end_orphans();
            return false;
        }
        if (obey(aTHX_ & packet, before_fork))
            return true;
    }
    return false;
}
