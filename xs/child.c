/*
 * Looks at the heap of this worker in a child of its own, while the worker goes on: the fork takes a moment, whatever the
 * child does. It is a grandchild in truth, so that the application never meets a child that it does not know of. What the
 * child finds it sends over the worker's channel, and ends without a word of Perl's.
 */
#include "howdah.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE 600 /* seconds for the child */
#define MEGABYTE 1048576

/* True in the child. */
static bool fork_away(Inquiry inquiry, U64 word) {
    pid_t child = fork();
    if (child == 0) {
        if (fork() != 0)
            _exit(0);
        for (int signal = 1; signal < NSIG; signal++)
            sigaction(signal, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
        alarm(PATIENCE);
        setpriority(PRIO_PROCESS, 0, 10);
        return true;
    }
    if (child < 0)
        hd_answer(inquiry, word, -1, "the worker cannot fork");
    else
        while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
            ;
    return false;
}

/* Files of this process are no longer than that; who writes more gets an error. */
static void bound_files(U32 megabytes) {
    rlim_t bytes = (rlim_t)megabytes * MEGABYTE;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){bytes, bytes});
}

/* What a Perl module has made: a handle, or a sentence that says why there is none. */
static void send_made(pTHX_ Inquiry inquiry, U64 word, SV *made) {
    IO *io = SvROK(made) ? sv_2io(made) : NULL;
    if (io && IoIFP(io))
        hd_answer(inquiry, word, PerlIO_fileno(IoIFP(io)), "");
    else
        hd_answer(inquiry, word, -1, SvPV_nolen(SvTRUE(ERRSV) ? ERRSV : made));
}

void hd_ask_heap(pTHX_ U64 word) {
    if (!word || !fork_away(INQUIRY_HEAP, word))
        return;
    bound_files(word);
    hd_disarm_sockets();
    send_made(aTHX_ INQUIRY_HEAP, word, eval_pv("require Howdah::Heap; Howdah::Heap->write", FALSE));
    _exit(0);
}

void hd_ask_why(pTHX_ U64 word) {
    if (!word || !fork_away(INQUIRY_WHY, word))
        return;
    FILE *file = hd_open_answer();
    if (file)
        hd_write_chains(aTHX_ file, word);
    hd_close_answer(INQUIRY_WHY, word, file);
    _exit(0);
}

/* In the worker itself: only it can end what it writes. */
void hd_ask_profile(pTHX_ U64 word) {
    if (!(U32)word) /* not yet */
        return;
    ENTER;
    SAVETMPS;
    send_made(aTHX_ INQUIRY_PROFILE, word, eval_pv("require Howdah::NYTProf; Howdah::NYTProf->end", FALSE));
    FREETMPS;
    LEAVE;
}
