#ifndef HOWDAH_H
#define HOWDAH_H
/*
 * What the C files of the worker share. A request passes through them in this order: loop.c claims it, exchange.c serves
 * it: request.c, env.c and input.c build what the application is called with, in what kept.c has of the request before;
 * response.c takes the answer, head.c checks its header, body.c, handle.c, stream.c and ring.c bring it into the slot's
 * ring. exchange.c finishes the slot, loop.c claims the next.
 *
 * Perl code may die at any point where it is called (also behind a tied or overloaded value), so everything between
 * claim and finish runs inside one G_EVAL: see exchange.c.
 */
#define PERL_NO_GET_CONTEXT
#include "EXTERN.h"
#include "perl.h"
#include "XSUB.h"

#include "wire.h"

#include <sys/uio.h>

/* How far the response to the present request is. */
enum hd_progress {
    HD_FINISHED,    /* there is none: the slot belongs to the front again */
    HD_NOTHING_OUT, /* the front knows nothing yet: an error can still become a 500 */
    HD_HEAD_OUT     /* the head is published: an error can only cut the connection */
};

/* The head of the response, as far as it is not in the ring. */
struct hd_head {
    U32 status;
    U32 flags;          /* RESPONSE_ flags */
    U32 length;         /* bytes of header lines at the start of the ring */
    I64 content_length; /* -1 for none given */
    bool upgrade, connection; /* these fields were among the lines */
};

/* The request that this worker serves now. */
struct hd_exchange {
    U32 slot;
    UV serial; /* tells a writer kept from an earlier request from the present one */
    const SlotControl *control;
    const RequestRecord *request;
    uintptr_t used; /* bytes of it; 0 when it is not to be read */
    HV *env;
    SV *body; /* a handle whose close is still to be called */
    SV *writer; /* of a streaming response */
    struct hd_head head;
    enum hd_progress progress;
    U32 route;      /* by its path */
    const PERL_SI *below; /* perl's stack when the application was called */
    bool serving;   /* the application runs, and has not given its response back */
    bool held;      /* ... and is not to be interrupted */
    bool missed;    /* it would have been */
    bool responding; /* a response of the application's is being taken */
    bool tried;     /* the application has called its responder */
    bool answered;  /* the application gave a response */
    bool streaming; /* it has a writer */
    bool is_head;   /* the method is HEAD */
    bool bodyless;  /* HEAD, 204, 205, 304: body bytes are dropped */
    bool detached;  /* it took the socket */
    bool switched;  /* it has switched protocols by a response of 101 */
    bool dechunk;   /* the body comes in chunked coding already, which is undone */
};

/* This worker. There is one in a process. */
struct hd_worker {
    U16 index;
    const WorkerCell *cell; /* NULL in a child that the application forked */
    const void *perl;       /* the interpreter that serves; a thread of the application's has another */
    SV *app;
    int fronts;
    int eventfds[MAX_FRONTS];
    int channels[MAX_FRONTS];
    Leave leaving;
    U32 cpu;  /* what `cpu` in the cell was when the worker last looked */
    U64 asks; /* what `asks` in the cell was when the worker last looked */
    U64 owed; /* a bit for each front thread whose eventfd this worker has yet to write */
    struct hd_exchange now;
};

extern struct hd_worker hd;

/* Words of the segment are read with these, and written by the functions of wire.h alone. */
#define HD_LOAD(word) __atomic_load_n((const AtomicU32 *)&(word), __ATOMIC_ACQUIRE)
#define HD_LOAD64(word) __atomic_load_n((const AtomicU64 *)&(word), __ATOMIC_ACQUIRE)

/* The file of a statement that stands for whoever has called a CGI script. */
#define HD_NOBODY "(howdah)"

/* Whether what was called with G_EVAL has died. What an exception is worth as a condition is its class's business, which may die. */
#define HD_HAS_DIED() (SvROK(ERRSV) || SvTRUE(ERRSV))

/* segment.c */
void hd_map_segment(pTHX_ int fd);

/* wait.c */
U64 hd_now(void);
void hd_owe(U32 slot);
void hd_settle(void);
void hd_tell(void);
void hd_sleep_idle(pTHX);
void hd_retire(void);
void hd_wait_for_room(pTHX);
bool hd_front_is_gone(void);

/* cpu.c */
void hd_know_home(void);
void hd_share_cpu(void);
void hd_go_home(void);

/* channel.c */
int hd_channel(void);
void hd_reserve_descriptor(pTHX_ const char *what);
bool hd_try_again(int error);
bool hd_try_send(int fd, const Message *message, const char *payload, STRLEN length, int passed);
void hd_send(pTHX_ int fd, const Message *message, const char *payload, STRLEN length, int passed);
bool hd_take_packet(int fd, Message *message, int *got);
U64 hd_ask(pTHX_ MessageKind kind, U64 value, const char *payload, STRLEN length, int *got, SV *unread);

/* ask.c */
void hd_hear(pTHX);
void hd_forget_asked(void);

/* answer.c */
void hd_answer(Inquiry inquiry, U64 word, int fd, const char *sentence);
FILE *hd_open_answer(void);
void hd_put_field(FILE *file, const char *bytes, STRLEN length, char end);
void hd_close_answer(Inquiry inquiry, U64 word, FILE *file);

/* leaks.c */
void hd_track_always(void);
bool hd_is_tracking(void);
void hd_count_request(U32 route);

/* leak_report.c */
void hd_ask_leaks(U64 word);
void hd_say_last_words(void);
SV *hd_tell_leaks(pTHX);

/* child.c */
void hd_ask_heap(pTHX_ U64 word);
void hd_ask_why(pTHX_ U64 word);
void hd_ask_profile(pTHX_ U64 word);

/* why.c */
void hd_write_chains(pTHX_ FILE *file, U32 hash);

/* route.c */
void hd_prepare_route(pTHX);
void hd_forget_routes(void);
U32 hd_route_of_path(void);
U32 hd_route(pTHX);
const char *hd_route_name(U32 route, STRLEN *length);

/* growth.c */
void hd_prepare_growth(void);
void hd_start_growth(void);
void hd_end_growth_looks(void);
void hd_begin_growth(pTHX_ U64 now);
void hd_end_growth(pTHX_ U32 route);

/* env.c */
void hd_prepare_env(pTHX);
void hd_build_env(pTHX_ const RequestRecord *request);
SV *hd_cleanup_handlers(pTHX);
SV *hd_harakiri_commit(pTHX);

/* value.c */
SV *hd_env_value(pTHX_ SV *name);
SV *hd_env_named(pTHX_ const char *name);

/* kept.c */
IV hd_count_kept(void);
void hd_release_env(pTHX);
void hd_forget_env(pTHX);

/* FNV-1a, for tables of ours with few short names. */
static inline U32 hd_hash(const char *name, STRLEN length) {
    U32 hash = 2166136261u;
    for (STRLEN i = 0; i < length; i++)
        hash = (hash ^ (U8)name[i]) * 16777619u;
    return hash;
}

/* request.c */
void hd_open_request(void);
const FieldRecord *hd_fields(U32 *count);
const Span *hd_field(const char *name, STRLEN length);
void hd_damaged(pTHX) __attribute__((noreturn, cold));

/* A string of the request; NULL when it does not lie in there. */
static inline const char *hd_find_text(const Span *span, STRLEN *length) {
    U32 offset = HD_LOAD(span->offset), wanted = HD_LOAD(span->length);
    if (UNLIKELY((U64)offset + wanted > hd.now.used))
        return NULL;
    *length = wanted;
    return (const char *)hd.now.request + offset;
}

/* A string of the request, which must be there. */
static inline const char *hd_text(pTHX_ const Span *span, STRLEN *length) {
    const char *text = hd_find_text(span, length);
    if (UNLIKELY(!text))
        hd_damaged(aTHX);
    return text;
}

/* input.c */
void hd_prepare_input(pTHX);
SV *hd_input(pTHX_ const RequestRecord *request);
bool hd_borrows_input(void);
void hd_keep_input(pTHX);
void hd_keep_input_for_child(void);
void hd_return_input(pTHX);
SV *hd_handle(pTHX_ PerlIO *fp);
bool hd_is_untouched(SV *glob, const HV *class);

/* title.c */
void hd_prepare_title(pTHX_ SV *name, bool wanted);
void hd_name_workers(pTHX);
void hd_title_worker(pTHX);
void hd_title_request(pTHX);
void hd_title_state(char state);

/* errors.c */
void hd_open_errors(pTHX_ int fd, const U8 *secret);
void hd_sign_errors(int worker);
void hd_put_message(pTHX_ const char *message, size_t length, const char *level);
void hd_point_errors(void);
void hd_adopt_errors(pTHX);
void hd_unbuffer_errors(pTHX);
void hd_prepare_errors(void);
bool hd_errors_are_whole(pTHX);
void hd_know_errors(pTHX);
void hd_settle_streams(pTHX);
void hd_write_errors(const char *bytes, size_t count);

/* exec.c */
void hd_prepare_exec(pTHX);

/* here.c */
void hd_prepare_question(pTHX);
void hd_tell_place(pTHX);

/* signals.c */
void hd_catch_signals(pTHX);
void hd_catch_again(pTHX);
bool hd_is_for_worker(int signal_number);

/* socket.c */
void hd_prepare_socket(pTHX);
IV hd_count_lazy(void);
SV *hd_lazy_socket(pTHX);
void hd_arm_socket(pTHX_ SV *handle);
void hd_disarm_sockets(void);
void hd_take_socket(pTHX_ SV *handle);
IV hd_buffered(pTHX_ SV *handle);
bool hd_says_crowded(pTHX_ SV *error);
void hd_die_of_crowd(pTHX) __attribute__((noreturn, cold));
void hd_put_socket(pTHX_ const char *bytes, STRLEN length);

/* exchange.c */
void hd_exchange(pTHX_ U32 slot);
void hd_finish(pTHX);
void hd_abandon(pTHX_ const char *why);
void hd_complain(pTHX_ SV *error);
void hd_redirect(pTHX_ SV *path);
void hd_prepare_exchange(pTHX);

/* gone.c */
void hd_die_of_end(pTHX) __attribute__((noreturn, cold));
void hd_check_serial(pTHX_ UV serial);
void hd_die_of_client(pTHX) __attribute__((noreturn, cold));
void hd_check_client(pTHX);
void hd_interrupt(pTHX);
void hd_hold_interrupts(pTHX);
bool hd_says_gone(pTHX_ SV *error);

/* forks.c */
bool hd_has_children(void);
int hd_count_threads(void);

/* report.c */
void hd_prepare_report(pTHX);
void hd_report(pTHX);

/* text.c */
const char *hd_bytes(pTHX_ SV *sv, STRLEN *length, const char *what);
const char *hd_utf8(pTHX_ SV *sv, STRLEN *length);

/* head.c */
U32 hd_status(pTHX_ SV *sv);
void hd_write_head(pTHX_ struct hd_head *head, AV *headers, char *lines);

/* response.c */
void hd_respond(pTHX_ SV *response, bool may_stream);

/* ring.c */
void hd_publish(U32 flags);
void hd_copy(void *to, const void *from, STRLEN length);
void hd_put(pTHX_ const char *bytes, STRLEN length);
void hd_default_length(U64 length);

/* dechunk.c */
void hd_start_dechunk(void);
STRLEN hd_dechunk(pTHX_ const char **at, const char *end);
void hd_end_dechunk(pTHX);

/* body.c */
void hd_send_array(pTHX_ AV *body);

/* loan.c */
bool hd_may_borrow(U64 length);
U64 hd_send_borrowed(pTHX_ struct iovec *runs, U32 count);

/* handle.c */
void hd_send_handle(pTHX_ SV *body);

/* stream.c */
#define HD_RUN_THE_LOOP                                                                                                              \
    "what waits for an event loop has to run that before it returns, as by $cv->recv (docs/processes.md)"
void hd_call_delayed(pTHX_ SV *code);
bool hd_keeps_writer(void);
UV hd_serial_of(pTHX_ SV *writer);

/* interim.c */
void hd_inform(pTHX_ SV *status, SV *headers);
void hd_switch_protocols(pTHX_ AV *headers);

/* loop.c */
void hd_know_fronts(pTHX_ const int *eventfds, int count);
void hd_become_worker(pTHX_ UV index, const int *channels, int count);
void hd_disown(void);
void hd_leave(UV reason);
bool hd_run(pTHX);

#endif
