/*
 * The worker's loop: claim, serve, next. Howdah::Worker calls it and leaves the process when it returns.
 *
 * As long as requests wait, a worker makes no system call of its own between them.
 */
#include "howdah.h"

struct hd_worker hd;

/* After every fork: a child that the application forks is no worker: the slot and the cell are its parent's. */
void hd_disown(void) {
    hd_go_home();
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
    if (count != hd.fronts)
        croak("the front must give as many channels as eventfds");
    const WorkerCell *cell = index < MAX_WORKERS ? howdah_start(index, getpid(), hd_now()) : NULL;
    if (!cell)
        croak("there is no cell for worker %" UVuf, index);
    Copy(channels, hd.channels, count, int);
    hd.index = index;
    hd.cell = cell;
    hd.perl = PERL_GET_THX;
    hd_start_growth();
    hd_know_home();
}

/* Makes the worker leave after the present request; the first reason counts. */
void hd_leave(UV reason) {
    if (!hd.leaving)
        hd.leaving = reason;
    if (hd.cell)
        howdah_give_reason(hd.index, hd.leaving);
}

/*
 * Serves until this worker is to leave, and says why it leaves. True when it is to leave a zygote behind. Dies only when a
 * signal handler between requests does.
 */
bool hd_run(pTHX) {
    U32 command = COMMAND_RUN;
    hd_abandon(aTHX_ "it was left in the middle of a request");
    hd_unbuffer_errors(aTHX);
    while (!hd.leaving) {
        PERL_ASYNC_CHECK();
        if (UNLIKELY(!hd.cell)) /* a child that comes back from an after_fork hook, or from a handler of a signal */
            my_exit(0);
        command = HD_LOAD(hd.cell->command);
        if (command == COMMAND_DRAIN || command == COMMAND_PROMOTE) {
            hd.leaving = LEAVE_DRAINED;
            break;
        }
        if (UNLIKELY(HD_LOAD64(hd.cell->asks) != hd.asks))
            hd_hear(aTHX);
        if (UNLIKELY(HD_LOAD(hd.cell->cpu) != hd.cpu))
            hd_share_cpu();
        I64 slot = howdah_claim(hd.index);
        if (slot < 0) {
            hd_sleep_idle(aTHX);
            continue;
        }
        hd_exchange(aTHX_ slot);
    }
    hd_go_home();
    hd_say_last_words();
    hd_title_state('G');
    hd_retire();
    return command == COMMAND_PROMOTE && hd.leaving == LEAVE_DRAINED;
}
