/*
 * A forked process becomes that of a request: what is left to do is what differs from the zygote. Its parent is the
 * zygote's, so that the host waits for it as for one that it has executed.
 */
#include "fork.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/*
 * Where libc keeps the thread's id, which its own fork has the kernel write anew in the child. The kernel knows the place;
 * without it (CONFIG_CHECKPOINT_RESTORE) only a signal that a process sends to its own thread would be in doubt.
 */
static int *thread_id(void) {
    int *place = NULL;
    return prctl(PR_GET_TID_ADDRESS, &place, 0, 0, 0) == 0 ? place : NULL;
}

/*
 * The kernel's clone and not libc's fork, which cannot make a sibling. There is one thread, and it holds none of libc's
 * locks or perl's; handlers that a library has set by pthread_atfork do not run.
 */
static pid_t clone_sibling(void) {
    int *place = thread_id();
    unsigned long flags = CLONE_PARENT | SIGCHLD | (place ? CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID : 0);
#if defined(__s390__) || defined(__CRIS__)
    return syscall(SYS_clone, 0, flags, NULL, place, 0);
#elif defined(__x86_64__)
    return syscall(SYS_clone, flags, 0, NULL, place, 0);
#else
    return syscall(SYS_clone, flags, 0, NULL, 0, place);
#endif
}

/* 0 in the child. A signal that comes meanwhile is for one of the two. */
pid_t hf_fork(void) {
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    pid_t pid = clone_sibling();
    if (pid == 0)
        setpgid(0, 0);
    int error = errno;
    sigprocmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return pid;
}

static void replace(int from, const struct hf_descriptor *descriptor) {
    if (from != descriptor->fd)
        dup3(from, descriptor->fd, descriptor->close_on_exec ? O_CLOEXEC : 0);
}

/* The same file, with an offset of its own; -1 where it cannot be opened. One of O_TMPFILE cannot, and has a C library that checks
 * (_FORTIFY_SOURCE) end the process unless there is a mode. */
int hf_open_again(const struct hf_descriptor *descriptor) {
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor->fd);
    return open(path, (descriptor->flags & ~O_CREAT) | O_CLOEXEC, 0);
}

/* Where the zygote stood in it. */
static void open_anew(const struct hf_descriptor *descriptor) {
    int fd = hf_open_again(descriptor);
    if (fd < 0) { /* rather none than one that is shared */
        close(descriptor->fd);
        return;
    }
    if (descriptor->position > 0)
        lseek(fd, descriptor->position, SEEK_SET);
    replace(fd, descriptor);
    close(fd);
}

/* What the script has printed, past perl's buffers, while it was compiled. */
static void print_again(void) {
    char bytes[4096];
    for (off_t at = 0; at < hf.printed;) {
        ssize_t length = pread(hf.output, bytes, sizeof bytes, at);
        if (length <= 0 || write(STDOUT_FILENO, bytes, length) != length)
            return;
        at += length;
    }
}

static void set_descriptors(const int fds[SCRIPT_DESCRIPTORS]) {
    for (int at = 0; at < hf.count; at++)
        if (hf.descriptors[at].standard >= 0)
            replace(fds[hf.descriptors[at].standard], &hf.descriptors[at]);
        else
            open_anew(&hf.descriptors[at]);
    print_again();
    for (int number = 0; number < SCRIPT_DESCRIPTORS; number++)
        close(fds[number]);
    close(hf.control);
    close(hf.output);
}

/* Of `-C`: as perl.h has it for perl alone. */
#ifndef PERL_UNICODE_ARGV_FLAG
#define PERL_UNICODE_ARGV_FLAG 0x0020
#endif

/* As perl does with its command line. */
static char *set_arguments(pTHX_ U32 count, char *text) {
    for (; count; count--, text += strlen(text) + 1) {
        TAINT;
        SV *argument = newSVpv(text, 0);
        TAINT_NOT;
        if (PL_unicode & PERL_UNICODE_ARGV_FLAG)
            (void)sv_utf8_decode(argument);
        av_push(GvAVn(PL_argvgv), argument);
    }
    return text;
}

/* Signals that came to the zygote are none of the request's. */
static void forget_signals(pTHX) {
    PL_sig_pending = 0;
    if (PL_psig_pend) /* perl has the table once the script has said anything of signals */
        Zero(PL_psig_pend, SIG_SIZE, int);
}

void hf_begin(pTHX_ const struct hf_launch *launch) {
    set_descriptors(launch->fds);
    forget_signals(aTHX);
    hf_title_process(launch->arguments, launch->text);
    hf_set_environment(aTHX_ launch, set_arguments(aTHX_ launch->arguments, launch->text));
    PL_srand_called = FALSE; /* the first `rand` chooses a seed */
    PL_basetime = time(NULL);
    PerlIO_clearerr(PerlIO_stdin()); /* a block that has read it found its end */
}
