/*
 * exec by the application. In the worker's place the program would be taken for it as long as it runs: nobody would answer the
 * request, and nobody serve in the worker's stead. So it is run by a child, which nobody here knows, and the worker leaves
 * as one does that execs: at once, without END blocks and hooks.
 */
#include "howdah.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

static OP *(*plain_exec)(pTHX);

/* In the child. Comes back to nobody when there is no such program, and leaves it to the worker to say so. */
static void become(pTHX_ int failed) {
    COP quiet = *PL_curcop;
    quiet.cop_warnings = pWARN_NONE;
    PL_curcop = &quiet;
    PL_dowarn = 0;
    plain_exec(aTHX);
    (void)!write(failed, "", 1);
    _exit(0);
}

/* The process id of the child that runs the program now; -1 when there is none. */
static pid_t run_in_child(pTHX) {
    int ends[2];
    char byte;
    ssize_t count;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    PERL_FLUSHALL_FOR_CHILD;
    pid_t child = fork();
    if (child == 0)
        become(aTHX_ ends[1]);
    close(ends[1]);
    while ((count = read(ends[0], &byte, 1)) < 0 && errno == EINTR)
        ;
    close(ends[0]);
    if (count == 0) /* closed by exec, or since there is no child */
        return child;
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
        ;
    return -1;
}

static OP *exec_in_child(pTHX) {
    char why[96];
    const pid_t child = hd.cell && PERL_GET_THX == hd.perl ? run_in_child(aTHX) : -1;
    if (child < 0) /* also one that has no program to run: perl finds out why, and says so */
        return plain_exec(aTHX);
    my_snprintf(why, sizeof why, "it has executed another program (exec), which goes on as process %d", (int)child);
    hd_leave(LEAVE_EXEC);
    hd_abandon(aTHX_ why);
    PerlIO_flush(NULL);
    _exit(0);
}

/* Before the application is compiled: its calls of exec will be ours. */
void hd_prepare_exec(pTHX) {
    if (plain_exec)
        return;
    plain_exec = PL_ppaddr[OP_EXEC];
    PL_ppaddr[OP_EXEC] = exec_in_child;
}
