/*
 * Sleeping and waking: a worker sleeps on futexes in shared memory and wakes a front thread by its eventfd. Only
 * here does a worker wait for the front; every wait ends within a second to see whether the front still lives.
 */
#include "howdah.h"

#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* After so many vain looks for work, a worker looks only every so many times, and half as often after each that is vain as well. */
#define VAIN_SPINS 4
#define SPIN_AGAIN 64
#define SPIN_SELDOM 1024
/* So often it looks before it lets others have the processor, and whoever keeps it for so long is not the client. */
#define LOOKS 8
#define LOST_NS 200000

/* Tells the processor that this is a loop which waits. */
static inline void pause_processor(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

/* CLOCK_MONOTONIC, the clock of every timestamp in the segment; no system call, by the vDSO. */
U64 hd_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (U64)now.tv_sec * 1000000000 + now.tv_nsec;
}

static bool futex_wait(const AtomicU32 *word, U32 seen) {
    static const struct timespec second = {1, 0};
    return syscall(SYS_futex, word, FUTEX_WAIT, seen, &second, NULL, 0) == 0 || errno != ETIMEDOUT;
}

/* The front closes its ends of the channels when it dies. */
bool hd_front_is_gone(void) {
    struct pollfd channel = {.fd = hd.channels[0], .events = 0};
    return poll(&channel, 1, 0) == 1 && (channel.revents & (POLLHUP | POLLERR | POLLNVAL));
}

/* Notes that the eventfd of the slot's front thread must be written. */
void hd_owe(U32 slot) {
    U32 front = howdah_front(slot);
    hd.owed |= (U64)1 << (front < (U32)hd.fronts ? front : 0);
}

/* Writes the eventfds that are owed. */
void hd_settle(void) {
    const U64 one = 1;
    while (hd.owed) {
        int front = __builtin_ctzll(hd.owed);
        /* A full counter (EAGAIN) is readable already. */
        while (write(hd.eventfds[front], &one, sizeof one) < 0 && errno == EINTR)
            ;
        hd.owed &= hd.owed - 1;
    }
}

/* Tells the front that the present slot has news. */
void hd_tell(void) {
    if (howdah_tell(hd.now.slot))
        hd_owe(hd.now.slot);
    hd_settle();
}

static bool work_comes(void) {
    for (int look = 0; look < LOOKS; look++, pause_processor())
        if (howdah_queue_length())
            return true;
    return false;
}

/*
 * Looks for work a little longer, when the front says that requests come one by one and looking has paid lately. A client
 * that shares this processor could not send any meanwhile: the kernel lets the one that runs have its time. So it is let go first.
 */
static bool spin(void) {
    static unsigned vain, skipped, again;
    U32 spin_ns = howdah_spin();
    if (!spin_ns || (vain >= VAIN_SPINS && ++skipped % again))
        return false;
    U64 now = hd_now(), end = now + spin_ns, before;
    do {
        if (work_comes()) {
            vain = 0;
            return true;
        }
        before = now;
        sched_yield();
        now = hd_now();
    } while (now < end && now < before + LOST_NS);
    again = vain < VAIN_SPINS ? SPIN_AGAIN : again < SPIN_SELDOM ? again * 2 : SPIN_SELDOM;
    vain = now < end ? VAIN_SPINS : vain + 1;
    skipped = 0;
    return false;
}

/* Sleeps until the front has work or a command, a signal comes, or a second has passed. */
void hd_sleep_idle(pTHX) {
    hd_settle();
    if (spin())
        return;
    bool woken = true;
    hd_title_state('_');
    if (howdah_enter_idle(hd.index, hd_now()))
        woken = futex_wait(&hd.cell->wake, 0);
    howdah_leave_idle(hd.index);
    PERL_ASYNC_CHECK();
    if (!woken && hd_front_is_gone())
        hd.leaving = LEAVE_ORPHAN;
}

/* Leaves, and wakes another when requests wait for which this worker was woken. */
void hd_retire(void) {
    const WorkerCell *other = howdah_retire(hd.index, hd.leaving);
    if (other)
        syscall(SYS_futex, &other->wake, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* Sleeps until the front has taken something from the ring of the present slot. */
void hd_wait_for_room(pTHX) {
    U32 seen;
    hd_tell();
    if (howdah_wait_for_room(hd.now.slot, &seen) && !futex_wait(&hd.now.control->room, seen) && hd_front_is_gone()) {
        hd.leaving = LEAVE_ORPHAN;
        croak("the front is gone");
    }
}
