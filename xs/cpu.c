/*
 * The processor that a worker shares with the front, for as long as the front says so: see docs/decisions/28-share-cpu.md.
 * The worker looks between two requests. What it forks may run anywhere.
 */
#include "howdah.h"

#include <dirent.h>
#include <sched.h>
#include <stdlib.h>

static cpu_set_t home; /* where it may run otherwise; empty when that is not known */
static int shared = -1; /* the processor that it is on for the front's sake */

/* After the fork; and whenever it is about to share a processor, for an operator may have changed it. */
void hd_know_home(void) {
    if (sched_getaffinity(0, sizeof home, &home) < 0)
        CPU_ZERO(&home);
}

/* Only what this file has done is undone. */
static void free_thread(pid_t thread) {
    cpu_set_t now;
    if (sched_getaffinity(thread, sizeof now, &now) == 0 && CPU_COUNT(&now) == 1 && CPU_ISSET(shared, &now))
        sched_setaffinity(thread, sizeof home, &home);
}

/* The application may have started threads meanwhile, which have begun where this one was. */
static void free_threads(void) {
    DIR *threads = opendir("/proc/self/task");
    if (!threads)
        return;
    for (struct dirent *thread; (thread = readdir(threads));)
        if (atoi(thread->d_name) > 0)
            free_thread(atoi(thread->d_name));
    closedir(threads);
}

/* In a child that was forked meanwhile, too, which has no other threads. */
void hd_go_home(void) {
    if (shared < 0)
        return;
    free_thread(0);
    shared = -1;
}

/* Does what the cell says. A processor that this worker may not use, or the only one, is nothing to share. */
void hd_share_cpu(void) {
    cpu_set_t only;
    hd.cpu = HD_LOAD(hd.cell->cpu);
    if (shared >= 0)
        free_threads();
    hd_go_home();
    if (!hd.cpu || hd.cpu > CPU_SETSIZE)
        return;
    hd_know_home();
    if (CPU_COUNT(&home) < 2 || !CPU_ISSET(hd.cpu - 1, &home))
        return;
    CPU_ZERO(&only);
    CPU_SET(hd.cpu - 1, &only);
    if (sched_setaffinity(0, sizeof only, &only) == 0)
        shared = hd.cpu - 1;
}
