/*
 * psgix.io: the client's connection. Called by env.c.
 *
 * Handing over the connection is rare and cannot be undone, so most requests get a handle of class Howdah::Socket
 * that fetches the real socket at its first use. A client that asks to switch protocols (`Upgrade`) gets the real
 * one at once, for event loops that look only at its descriptor.
 */
#include "howdah.h"

static SV *lazy; /* reference to the glob that no request has used yet */

static SV *call(pTHX_ SV *invocant, const char *name) {
    dSP;
    ENTER;
    SAVETMPS;
    PUSHMARK(SP);
    XPUSHs(invocant);
    PUTBACK;
    call_method(name, G_SCALAR);
    SPAGAIN;
    SV *made = newSVsv(POPs);
    PUTBACK;
    FREETMPS;
    LEAVE;
    return made;
}

static void open_lazy(pTHX) {
    SvREFCNT_dec(lazy);
    lazy = NULL;
    lazy = call(aTHX_ sv_2mortal(newSVpvs("Howdah::Socket")), "lazy");
}

/* Once, in the zygote. */
void hd_prepare_socket(pTHX) { open_lazy(aTHX); }

/* The handle for psgix.io; the same again until an application keeps or uses it. */
SV *hd_lazy_socket(pTHX) {
    if (!lazy || SvREFCNT(SvRV(lazy)) != 1)
        open_lazy(aTHX);
    return newRV_inc(SvRV(lazy));
}

/* Makes psgix.io the real socket, and stores what the client has sent behind its request. */
void hd_upgrade_socket(pTHX_ HV *env) {
    SV *unread = call(aTHX_ sv_2mortal(newRV_inc(SvRV(lazy))), "attach");
    (void)hv_stores(env, "howdah.io.unread", unread);
}

/* Takes the present request's connection from the front, for its handle: a descriptor that the caller owns. */
int hd_take_socket(pTHX_ SV *handle, SV *unread) {
    int fd;
    if (!lazy || !SvROK(handle) || SvRV(handle) != SvRV(lazy) || hd.now.progress == HD_FINISHED)
        croak("psgix.io: the connection of that request is no longer at hand");
    if (hd_ask(aTHX_ MESSAGE_KIND_SOCKET, 0, NULL, 0, &fd, unread) != 0 || fd < 0)
        croak("psgix.io: the front does not hand over this connection");
    hd.now.detached = true;
    sv_2mortal(lazy); /* the next request gets another handle */
    lazy = NULL;
    return fd;
}

/* Bytes in a handle's read buffer. */
IV hd_buffered(pTHX_ SV *handle) {
    IO *io = sv_2io(handle);
    return IoIFP(io) && PerlIO_has_cntptr(IoIFP(io)) ? PerlIO_get_cnt(IoIFP(io)) : 0;
}
