/*
 * The worker's loop: claim, serve, next. Howdah::Worker calls it and leaves the process when it returns.
 *
 * As long as requests wait, a worker makes no system call of its own between them.
 */
#include "howdah.h"

struct hd_worker hd;

/* After every fork: a child that the application forks is no worker: the slot and the cell are its parent's. */
void hd_disown(void) {
    hd.cell = NULL;
    hd.owed = 0;
    hd.now.progress = HD_FINISHED;
}

/* The zygote says where the front threads listen; its workers inherit that. */
void hd_know_fronts(pTHX_ const int *eventfds, int count) {
    if (count < 1 || count > MAX_FRONTS)
        croak("the front must give 1 to %d descriptors, not %d", MAX_FRONTS, count);
    Copy(eventfds, hd.eventfds, count, int);
    hd.fronts = count;
}

/* Makes this process the worker `index`; after the fork, once. */
void hd_become_worker(pTHX_ UV index, const int *channels, int count) {
    const WorkerCell *cell = index < MAX_WORKERS ? howdah_worker(index) : NULL;
    if (!cell)
        croak("there is no cell for worker %" UVuf, index);
    if (count != hd.fronts)
        croak("the front must give as many channels as eventfds");
    Copy(channels, hd.channels, count, int);
    hd.index = index;
    hd.cell = (WorkerCell *)cell;
    HD_STORE(hd.cell->pid, getpid());
    HD_STORE(hd.cell->slot, 0);
    HD_STORE(hd.cell->leave, LEAVE_UNSAID);
    HD_STORE64(hd.cell->requests, 0);
    HD_STORE64(hd.cell->since, hd_now());
    HD_STORE(hd.cell->phase, WORKER_PHASE_STARTING);
}

/* Makes the worker leave after the present request; the first reason counts. */
void hd_leave(UV reason) {
    if (!hd.leaving)
        hd.leaving = reason;
    if (hd.cell)
        HD_STORE(hd.cell->leave, hd.leaving);
}

static void enter(U32 slot) {
    U64 now = hd_now();
    HD_STORE64(((SlotControl *)howdah_control(slot))->claimed_at, now);
    HD_STORE64(hd.cell->since, now);
    HD_STORE(hd.cell->slot, slot + 1);
    HD_STORE(hd.cell->phase, WORKER_PHASE_BUSY);
}

static void count(void) {
    U64 requests = HD_LOAD64(hd.cell->requests) + 1, quota = HD_LOAD64(hd.cell->quota);
    HD_STORE64(hd.cell->requests, requests);
    if (quota && requests >= quota && !hd.leaving)
        hd.leaving = LEAVE_QUOTA;
}

/* Serves until this worker is to leave, and says why it leaves. Dies only when a signal handler between requests does. */
void hd_run(pTHX) {
    while (!hd.leaving) {
        PERL_ASYNC_CHECK();
        if (HD_LOAD(hd.cell->command) == COMMAND_DRAIN) {
            hd.leaving = LEAVE_DRAINED;
            break;
        }
        I64 slot = howdah_claim(hd.index);
        if (slot < 0) {
            hd_sleep_idle(aTHX);
            continue;
        }
        enter(slot);
        hd_exchange(aTHX_ slot);
        count();
    }
    HD_STORE(hd.cell->leave, hd.leaving);
    HD_STORE(hd.cell->phase, WORKER_PHASE_LEAVING);
    hd_title_state('G');
    hd_pass_on();
}
