#ifndef HOWDAH_PROBES_H
#define HOWDAH_PROBES_H
/*
 * All static probes of workers and zygotes, for bpftrace, perf and SystemTap: each is an instruction that does nothing, and a
 * note in the object file that says where it is and where its arguments are. docs/tracing.md has the same table, with
 * examples. Without <sys/sdt.h> (systemtap-sdt-dev) when Howdah is built there are none.
 *
 *     probe          arg0    arg1             arg2           arg3     when
 *     queue_wait     worker  queued at (ns)   claimed (ns)            a worker has claimed a request
 *     request_begin  worker  target           its length     serial   ... and is about to call the application
 *     request_end    worker  status           serial                  the response has been handed over
 *     worker_fork    worker  pid                                      a zygote has forked a worker
 *     worker_exit    worker  pid              wait status             one has ended
 *
 * Arguments are what lies at hand: times are CLOCK_MONOTONIC's as bpftrace's `nsecs`, the target is no C string, and the
 * serial number is that of the request in its worker. The length has 64 bits because str(arg1, arg2) of bpftrace 0.17 is
 * a program that Linux 6.1 refuses otherwise.
 */
#if defined(__has_include)
#if __has_include(<sys/sdt.h>)
#include <sys/sdt.h>
#endif
#endif

#ifdef DTRACE_PROBE2
#define HD_PROBE_QUEUE_WAIT(worker, queued, claimed) DTRACE_PROBE3(howdah, queue_wait, worker, queued, claimed)
#define HD_PROBE_REQUEST_BEGIN(worker, target, length, serial)                                                         \
    DTRACE_PROBE4(howdah, request_begin, worker, target, (uint64_t)(length), serial)
#define HD_PROBE_REQUEST_END(worker, status, serial) DTRACE_PROBE3(howdah, request_end, worker, status, serial)
#define HD_PROBE_WORKER_FORK(worker, pid) DTRACE_PROBE2(howdah, worker_fork, worker, pid)
#define HD_PROBE_WORKER_EXIT(worker, pid, status) DTRACE_PROBE3(howdah, worker_exit, worker, pid, status)
#else
#define HD_PROBE_QUEUE_WAIT(worker, queued, claimed) ((void)0)
#define HD_PROBE_REQUEST_BEGIN(worker, target, length, serial) ((void)(target), (void)(length))
#define HD_PROBE_REQUEST_END(worker, status, serial) ((void)0)
#define HD_PROBE_WORKER_FORK(worker, pid) ((void)0)
#define HD_PROBE_WORKER_EXIT(worker, pid, status) ((void)0)
#endif

#endif
