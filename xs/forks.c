/*
 * Whether a CGI script that runs in the worker has started processes, for stdin.c, output.c and leftovers.c: these may have
 * what was the script's, and write there when it has ended.
 */
#include "script.h"

#include <pthread.h>

static struct {
    unsigned all;    /* of this process */
    unsigned before; /* when the script began */
    bool counting;
} forks;

static void count_fork(void) { forks.all++; }

void hd_count_forks(void) {
    if (!forks.counting)
        pthread_atfork(NULL, count_fork, NULL);
    forks.counting = true;
}

/* A script begins. */
void hd_begin_forks(void) { forks.before = forks.all; }

/* Whether the present script has started processes. */
bool hd_has_forked(void) { return forks.all != forks.before; }
