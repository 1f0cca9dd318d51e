/*
 * Processes and threads that the application has started. Those of a CGI script that runs in the worker (stdin.c, output.c and
 * leftovers.c ask) may have what was the script's, and write there when it has ended; a worker that has any leaves no
 * zygote behind (promote.c).
 */
#include "script.h"

#include <dirent.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static struct {
    unsigned all;     /* of this process */
    unsigned before;  /* when the script began */
    unsigned threads; /* of the script */
    bool counting;
} forks;

static void count_fork(void) { forks.all++; }

void hd_count_forks(void) {
    if (!forks.counting)
        pthread_atfork(NULL, count_fork, NULL);
    forks.counting = true;
}

/* A script begins. */
void hd_begin_forks(void) {
    forks.before = forks.all;
    forks.threads = 0;
}

/* Perl tells of each thread that it starts. */
void hd_count_thread(void) { forks.threads++; }

static int listed_threads(void) {
    DIR *tasks = opendir("/proc/self/task");
    int count = 0;
    for (struct dirent *entry; tasks && (entry = readdir(tasks));)
        count += entry->d_name[0] != '.';
    if (tasks)
        closedir(tasks);
    return count;
}

/* Of this process, with its first; 0 when that cannot be told. One that was joined is listed for a moment yet. */
int hd_count_threads(void) {
    int count = listed_threads();
    for (int looks = 0; looks < 10 && count > 1; looks++) {
        usleep(1000);
        count = listed_threads();
    }
    return count;
}

/* Whether the present script has started threads and some go on. */
bool hd_has_threads(void) { return forks.threads && hd_count_threads() > 1; }

/* Whether the present script has started processes. */
bool hd_has_forked(void) { return forks.all != forks.before; }

/* Those that have ended do not count, and are forgotten. */
bool hd_has_children(void) {
    pid_t ended;
    while ((ended = waitpid(-1, NULL, WNOHANG)) > 0)
        ;
    return ended == 0;
}
