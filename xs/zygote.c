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
#include "probes.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Workers of a front that is gone get this long to leave before they are killed. */
#define ORPHAN_MS 1000
/* How often it looks for ends of children itself while it has other threads, each of which may have taken the signal. */
#define LOOK_MS 100
#define FAILED_TO_FORK 256

static struct hd_zygote {
    pid_t pid;
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
    pthread_atfork(hd_keep_input_for_child, NULL, hd_disown);
    hd_prepare_socket(aTHX);
    hd_prepare_input(aTHX);
    hd_use_up_free_memory(aTHX);
    hd_prepare_report(aTHX);
    hd_prepare_env(aTHX);
    hd_prepare_exchange(aTHX);
    hd_prepare_route(aTHX);
    hd_prepare_growth();
    hd_know_errors(aTHX);
    hd_prepare_question(aTHX);
    hd_catch_signals(aTHX);
    hd_tell_layout(aTHX);
    PERL_FLUSHALL_FOR_CHILD;
    hd_use_huge_pages();
}

/*
 * Who reads a terminal in the background is stopped with all of its process group, which is every worker. Without it as
 * controlling terminal, reading one that is open works, and who looks for one to ask for a password, as ssh does, has none.
 */
static void leave_terminal(void) {
    int terminal = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (terminal < 0)
        return;
    ioctl(terminal, TIOCNOTTY);
    close(terminal);
}

/* The front's first order, which is carried out. False when the front is gone already. */
bool hd_attach(pTHX_ int control, OrderRecord *order) {
    struct hd_packet packet;
    if (!hd_receive(control, &packet))
        return false;
    if (!packet.understood || packet.order.kind != ZYGOTE_ORDER_ATTACH)
        croak("the front's first order is none that these modules know: install front and Perl modules of one version");
    leave_terminal();
    *order = packet.order;
    bool has_errors = order->flags & ZYGOTE_ERRORS;
    hd_map_segment(aTHX_ packet.fds[0]);
    close(packet.fds[0]);
    hd_know_fronts(aTHX_ packet.fds + 1, packet.count - 1 - has_errors);
    if (has_errors) {
        hd_open_errors(aTHX_ packet.fds[packet.count - 1], order->secret);
        close(packet.fds[packet.count - 1]);
    }
    return true;
}

static void report(ReportRecord report) { hd_send_report(zygote.control, &report, "", 0); }

static void report_text(const char *format, ...) {
    const ReportRecord report = {.kind = ZYGOTE_REPORT_LOG};
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    hd_send_report(zygote.control, &report, text, strlen(text));
}

/* What a worker has started that was killed, as the scripts of `Howdah::CGI::Keep` do, whose worker has a group of its own. */
static void end_group(pid_t pid, int status) {
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        kill(-pid, SIGKILL);
}

static void note_end(pid_t pid, int status) {
    end_group(pid, status);
    for (int index = 0; index < MAX_WORKERS; index++)
        if (zygote.children[index] == pid) {
            zygote.children[index] = 0;
            zygote.living--;
            HD_PROBE_WORKER_EXIT(index, pid, status);
            report((ReportRecord){.kind = ZYGOTE_REPORT_EXITED, .worker = index, .pid = pid, .status = status});
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
pid_t hd_fork_perl(pTHX) {
    sigset_t all, before, of_child;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    of_child = before; /* that has children of its own */
    sigdelset(&of_child, SIGCHLD);
    pid_t pid = PerlProc_fork();
    if (pid == 0) { /* a signal for the parent is none for the child */
        PL_sig_pending = 0;
        Zero(PL_psig_pend, SIG_SIZE, int);
    }
    sigprocmask(SIG_SETMASK, pid ? &before : &of_child, NULL);
    return pid;
}

static void run_hook(pTHX_ SV *hook) {
    dSP;
    PUSHMARK(SP);
    call_sv(hook, G_VOID | G_DISCARD | G_EVAL | G_NOARGS);
    PERL_FLUSHALL_FOR_CHILD;
}

/* What to raise where something is short, in the words of crates/sys/src/shortage.rs. */
static const char *way_out(int error) {
    switch (error) {
    case EAGAIN:
        return "; the user or the container may have no more processes and threads: raise ulimit -u, systemd's TasksMax or "
               "the cgroup's pids.max, or have fewer workers";
    case ENOMEM:
        return "; there is no memory for another process: raise ulimit -v or the cgroup's memory.max, look at "
               "vm.overcommit_memory, or have fewer workers";
    case EMFILE:
        return "; the zygote has no descriptor left: close files that the application leaves open, or raise the limit of open "
               "files (ulimit -n, systemd's LimitNOFILE=)";
    case ENFILE:
        return "; the whole system has no descriptor left: raise fs.file-max (sysctl)";
    default:
        return "";
    }
}

static void give_up(U32 index, int error) {
    report_text("cannot fork worker %u: %s%s", index, strerror(error), way_out(error));
    report((ReportRecord){.kind = ZYGOTE_REPORT_EXITED, .worker = index, .status = FAILED_TO_FORK});
}

static void record(U32 index, pid_t pid) {
    if (pid > 0) {
        zygote.children[index] = pid;
        zygote.living++;
        HD_PROBE_WORKER_FORK(index, pid);
        report((ReportRecord){.kind = ZYGOTE_REPORT_SPAWNED, .worker = index, .pid = pid});
    } else {
        give_up(index, errno);
    }
}

static const char SCORE[] = "/proc/self/oom_score_adj";

/* What the kernel adds to the memory of the first zygote, in thousandths of all, where it looks for a process to end
 * (crates/sys/src/oom.rs). One that a worker has left behind goes by it, too, so that nothing adds up. */
static int zygote_score = -1;

static void know_score(void) {
    char text[16] = "";
    int fd = zygote_score < 0 ? open(SCORE, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    zygote_score = read(fd, text, sizeof text - 1) > 0 ? atoi(text) : 0;
    close(fd);
}

/* A worker counts for a tenth of that more than its zygote, which is larger than a young one by what it has needed to load the
 * application: without a zygote nobody forks the next worker. Refused, both count for the same. */
static void count_for_more(void) {
    char text[16];
    int score = zygote_score + (zygote_score + 9) / 10, fd = zygote_score > 0 ? open(SCORE, O_WRONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    size_t length = my_snprintf(text, sizeof text, "%d", score < 1000 ? score : 1000);
    if (write(fd, text, length) < 0)
        errno = 0;
    close(fd);
}

static void begin_worker(pTHX_ U32 index, const struct hd_packet *packet) {
    close(zygote.ended);
    if (getppid() != zygote.pid) /* which may not have said who this is: by now the cell may be another's */
        _exit(0);
    PL_srand_called = FALSE; /* the first `rand` chooses a seed */
    count_for_more();
    hd_sign_errors(index);
    hd_become_worker(aTHX_ index, packet->fds, packet->count);
    hd_title_worker(aTHX);
}

/* True in the new worker. */
static bool spawn(pTHX_ const struct hd_packet *packet, SV *before_fork) {
    U32 index = packet->order.worker;
    if (before_fork)
        run_hook(aTHX_ before_fork);
    if (zygote.children[index]) /* the front has noticed its end before us */
        reap();
    pid_t pid = hd_fork_perl(aTHX);
    if (pid == 0) {
        begin_worker(aTHX_ index, packet);
        return true;
    }
    hd_close_all(packet->fds, packet->count);
    record(index, pid);
    return false;
}

/* A spawn of whose descriptors the kernel has dropped some, since there are no numbers for them here. */
static bool is_short_of_descriptors(const struct hd_packet *packet) {
    const OrderRecord *order = &packet->order;
    return order->kind == ZYGOTE_ORDER_SPAWN && order->worker < MAX_WORKERS && (U32)packet->count < order->descriptors;
}

/* True in the new worker. */
static bool obey(pTHX_ const struct hd_packet *packet, SV *before_fork) {
    ZygoteOrder kind = packet->understood ? packet->order.kind : 0;
    if (kind == ZYGOTE_ORDER_SPAWN && packet->count == hd.fronts)
        return spawn(aTHX_ packet, before_fork);
    if (kind == ZYGOTE_ORDER_STOP)
        zygote.stopping = true;
    else if (kind == ZYGOTE_ORDER_SEGMENT)
        hd_map_segment(aTHX_ packet->fds[0]);
    else if (is_short_of_descriptors(packet))
        give_up(packet->order.worker, EMFILE);
    else
        report_text("the zygote does not understand an order that came with %d descriptors", packet->count);
    hd_close_all(packet->fds, packet->count);
    return false;
}

/* Obeys the front until that is gone, or wants nothing more. True in a child, which is to become a worker. */
bool hd_obey(pTHX_ int control, int ended, SV *before_fork) {
    struct hd_packet packet;
    Zero(&zygote, 1, struct hd_zygote); /* one that a worker has left behind knows nothing of that one's zygote */
    zygote.pid = getpid();
    zygote.control = control;
    zygote.ended = ended;
    prctl(PR_SET_PDEATHSIG, 0); /* from here on it sees by itself that the front is gone, and ends its workers before it leaves */
    know_score();
    hd_name_workers(aTHX);
    hd_use_up_free_memory(aTHX); /* what Perl code has freed since the preparations lies all over the heap, too */
    const int pause = hd_count_threads() > 1 ? LOOK_MS : -1;
    while (!zygote.stopping || zygote.living) {
        struct pollfd ready[2] = {{.fd = control, .events = POLLIN}, {.fd = ended, .events = POLLIN}};
        const int count = poll(ready, 2, pause);
        if (count < 0)
            PERL_ASYNC_CHECK();
        if (count == 0 || ready[1].revents)
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
