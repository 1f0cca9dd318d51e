/*
 * psgix.io: the client's connection, which stays the front's until the application uses it. Called by env.c.
 *
 * Handing over the connection cannot be undone: what the client has sent behind its request goes along, and would be lost
 * to the requests that it may be. So every request gets a handle that fetches the connection at its first use, and no
 * request pays for that before. The handle is tied, for what Perl does with handles; below that it is a socket of its
 * own, not connected, whose lowest layer fetches the connection when somebody wants the descriptor: an event loop, or a
 * built-in function that knows nothing of tied handles. The connection then takes that descriptor's place.
 */
#include "howdah.h"
#include "perliol.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

static SV *lazy;             /* reference to the glob that no request has used yet */
static IV lazy_values;       /* so many of perl's values it is made of */
static const HV *stash;      /* its class */
static const void *perl;     /* whose it is: a thread of the application's has a copy, which stays what it is */
static PerlIO_funcs waiting; /* the lowest layer of its two streams, as long as they have no connection */

/* The lowest layer of a stream. */
static PerlIOl *bottom(PerlIO *stream) {
    PerlIOl *layer = *stream;
    while (layer->next)
        layer = layer->next;
    return layer;
}

static bool is_waiting(PerlIO *stream, const PerlIOl *layer) {
    return PerlIOValid(stream) && bottom(stream) == layer && layer->tab == &waiting;
}

static bool belongs_to(const PerlIOl *layer, SV *handle) {
    IO *io = handle ? GvIO((GV *)SvRV(handle)) : NULL;
    return io && (is_waiting(IoIFP(io), layer) || is_waiting(IoOFP(io), layer));
}

/* Somebody wants the descriptor. */
static void fetch(pTHX_ PerlIO *stream) {
    if (PerlIOBase(stream)->tab != &waiting || PERL_GET_THX != perl)
        return;
    hd_take_socket(aTHX_ belongs_to(*stream, lazy) ? lazy : NULL);
}

static IV waiting_fileno(pTHX_ PerlIO *stream) {
    fetch(aTHX_ stream);
    return PerlIO_unix.Fileno(aTHX_ stream);
}

static SSize_t waiting_read(pTHX_ PerlIO *stream, void *bytes, Size_t count) {
    fetch(aTHX_ stream);
    return PerlIO_unix.Read(aTHX_ stream, bytes, count);
}

static SSize_t waiting_write(pTHX_ PerlIO *stream, const void *bytes, Size_t count) {
    fetch(aTHX_ stream);
    return PerlIO_unix.Write(aTHX_ stream, bytes, count);
}

static void set_layer(PerlIO *stream, PerlIO_funcs *from, PerlIO_funcs *to) {
    if (PerlIOValid(stream) && bottom(stream)->tab == from)
        bottom(stream)->tab = to;
}

static void set_layers(SV *handle, PerlIO_funcs *from, PerlIO_funcs *to) {
    IO *io = GvIO((GV *)SvRV(handle));
    set_layer(IoIFP(io), from, to);
    set_layer(IoOFP(io), from, to);
}

/* From now on the first use of the handle, a socket that is not connected, fetches the connection. */
void hd_arm_socket(pTHX_ SV *handle) {
    perl = PERL_GET_THX;
    waiting = PerlIO_unix;
    waiting.Fileno = waiting_fileno;
    waiting.Read = waiting_read;
    waiting.Write = waiting_write;
    set_layers(handle, (PerlIO_funcs *)&PerlIO_unix, &waiting);
}

/* In a child that only looks: no use of any handle fetches a connection any more. */
void hd_disarm_sockets(void) { waiting = PerlIO_unix; }

/* On a stack of its own: a built-in function may be at work on the present one, which must not move. */
static SV *call(pTHX_ SV *invocant, const char *name, SV *argument) {
    dSP;
    ENTER;
    SAVETMPS;
    SAVEGENERICSV(PL_ors_sv); /* $\ of the application is for what that prints */
    PL_ors_sv = NULL;
    PUSHSTACKi(PERLSI_MAGIC);
    PUSHMARK(SP);
    XPUSHs(invocant);
    if (argument)
        XPUSHs(argument);
    PUTBACK;
    call_method(name, G_SCALAR);
    SPAGAIN;
    SV *made = newSVsv(POPs);
    PUTBACK;
    POPSTACK;
    FREETMPS;
    LEAVE;
    return made;
}

static void open_lazy(pTHX) {
    SV *class = sv_2mortal(newSVpvs("Howdah::Socket"));
    SvREFCNT_dec(lazy);
    lazy = NULL;
    const IV before = PL_sv_count;
    lazy = call(aTHX_ class, "lazy", NULL);
    lazy_values = PL_sv_count - before;
    stash = SvSTASH(SvRV(lazy));
}

/* Between two requests: of how many of perl's values the one is that waits for the next request, if that is not to make it. */
IV hd_count_lazy(void) { return lazy && SvREFCNT(SvRV(lazy)) == 1 ? lazy_values : 0; }

/* Once, in the zygote. */
void hd_prepare_socket(pTHX) { open_lazy(aTHX); }

/* The glob for psgix.io, to which the caller has a reference; the same again until an application keeps or uses it. */
SV *hd_lazy_socket(pTHX) {
    if (!lazy || SvREFCNT(SvRV(lazy)) != 1 || !hd_is_untouched(SvRV(lazy), stash))
        open_lazy(aTHX);
    return SvREFCNT_inc_simple_NN(SvRV(lazy));
}

static sigset_t signals; /* those that were blocked before */

static void restore_signals(pTHX_ void *nothing) {
    PERL_UNUSED_CONTEXT;
    PERL_UNUSED_VAR(nothing);
    sigprocmask(SIG_SETMASK, &signals, NULL);
}

/*
 * Loads the class that connections have. What the application's signal handlers die of has to wait for that: a module that is
 * interrupted can never be loaded again, and this worker could hand out no connection any more.
 */
static void prepare(pTHX_ SV *handle) {
    sigset_t all;
    SV **loaded = hv_fetchs(GvHVn(PL_incgv), "IO/Socket/INET.pm", 0);
    if (loaded && SvOK(*loaded))
        return;
    ENTER;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &signals);
    SAVEDESTRUCTOR_X(restore_signals, NULL);
    PERL_ASYNC_CHECK();
    SvREFCNT_dec(call(aTHX_ handle, "prepare", NULL));
    LEAVE;
    PERL_ASYNC_CHECK();
}

/* The descriptor, ours alone, as applications expect it. */
static void replace(pTHX_ SV *handle, int fd) {
    IO *io = GvIO((GV *)SvRV(handle));
    set_layers(handle, &waiting, (PerlIO_funcs *)&PerlIO_unix);
    int own = io && PerlIOValid(IoIFP(io)) ? PerlIO_fileno(IoIFP(io)) : -1;
    int flags = fcntl(fd, F_GETFL); /* the front had it otherwise */
    bool replaced = own >= 0 && fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) == 0 && dup3(fd, own, O_CLOEXEC) >= 0;
    close(fd);
    if (!replaced)
        croak("psgix.io: the handle was closed before it was used");
}

/* For peerhost and peerport where the descriptor cannot tell. */
static void note_client(pTHX_ SV *handle) {
    HV *notes = GvHVn((GV *)SvRV(handle));
    SV *address = hd_env_named(aTHX_ "REMOTE_ADDR"), *port = hd_env_named(aTHX_ "REMOTE_PORT");
    if (address && port) {
        (void)hv_stores(notes, "howdah_peerhost", newSVsv(address));
        (void)hv_stores(notes, "howdah_peerport", newSVsv(port));
    }
}

/* What the client has sent behind its request, for event loops; also where the application has locked its env. */
static void note_unread(pTHX_ HV *env, SV *unread) {
    bool locked = SvREADONLY(env);
    SvREADONLY_off(env);
    (void)hv_stores(env, "howdah.io.unread", newSVsv(unread));
    if (locked)
        SvREADONLY_on(env);
}

static const char crowded[] = "psgix.io: applications have as many connections as --max-upgrades allows";
static const char lacking[] = "psgix.io: the front has no descriptor left for the connection";

void hd_die_of_crowd(pTHX) { croak("%s", crowded); }

/* Whether the application died of that, or of a lack of descriptors. */
bool hd_says_crowded(pTHX_ SV *error) {
    STRLEN length;
    const char *text = SvROK(error) ? NULL : SvPV(error, length);
    return text && (strnEQ(text, crowded, sizeof crowded - 1) || strnEQ(text, lacking, sizeof lacking - 1));
}

/*
 * Takes the present request's connection from the front and makes it what `handle` refers to. What the client has sent
 * behind its request is in the env from now on; Howdah::Socket sees to it that reading the handle yields it first.
 */
void hd_take_socket(pTHX_ SV *handle) {
    int fd;
    SV *unread = sv_2mortal(newSVpvs(""));
    if (PERL_GET_THX != perl || !handle || !lazy || !SvROK(handle) || SvRV(handle) != SvRV(lazy) || hd.now.progress == HD_FINISHED)
        croak("psgix.io: the connection of that request is no longer at hand");
    if (hd.now.progress != HD_NOTHING_OUT)
        croak("psgix.io: the response has begun, so the connection stays with the front");
    hd_reserve_descriptor(aTHX_ "psgix.io");
    prepare(aTHX_ handle);
    U64 answer = hd_ask(aTHX_ MESSAGE_KIND_SOCKET, 0, NULL, 0, &fd, unread);
    if (answer == ANSWER_TOO_MANY)
        hd_die_of_crowd(aTHX);
    if (answer == ANSWER_NO_DESCRIPTOR)
        croak("%s", lacking);
    if (answer != 0 || fd < 0) {
        hd_check_client(aTHX);
        croak("psgix.io: the front does not hand over this connection");
    }
    hd.now.detached = true;
    SV *taken = sv_2mortal(lazy); /* the next request gets another handle */
    lazy = NULL;
    replace(aTHX_ taken, fd);
    note_client(aTHX_ taken);
    note_unread(aTHX_ hd.now.env, unread);
    SvREFCNT_dec(call(aTHX_ taken, "taken", unread));
}

/* What a writer writes behind a response of 101. */
void hd_put_socket(pTHX_ const char *bytes, STRLEN length) {
    SV *io = hd_env_named(aTHX_ "psgix.io");
    if (!io || !SvROK(io))
        croak("the response was 101, but the env has no psgix.io any more that could be written to");
    SV *written = sv_2mortal(call(aTHX_ io, "print", sv_2mortal(newSVpvn(bytes, length))));
    if (!SvTRUE(written))
        hd_die_of_client(aTHX);
}

/* Bytes in a handle's read buffer. */
IV hd_buffered(pTHX_ SV *handle) {
    IO *io = sv_2io(handle);
    return IoIFP(io) && PerlIO_has_cntptr(IoIFP(io)) ? PerlIO_get_cnt(IoIFP(io)) : 0;
}
