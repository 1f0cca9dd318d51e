/*
 * psgix.io: the client's connection. Called by env.c.
 *
 * Handing over the connection is rare and cannot be undone, so most requests get a handle of class Howdah::Socket
 * that fetches the real socket at its first use. A client that asks to switch protocols (`Upgrade`) gets the real
 * one at once, for event loops that look only at its descriptor.
 */
#include "howdah.h"

static SV *lazy; /* reference to the glob that no request has used yet */

static SV *call_constructor(pTHX_ const char *name) {
    dSP;
    ENTER;
    SAVETMPS;
    PUSHMARK(SP);
    mXPUSHp("Howdah::Socket", 14);
    PUTBACK;
    call_method(name, G_SCALAR);
    SPAGAIN;
    SV *made = newSVsv(POPs);
    PUTBACK;
    FREETMPS;
    LEAVE;
    return made;
}

/* The handle for psgix.io; the same again until an application keeps or uses it. */
SV *hd_lazy_socket(pTHX) {
    if (!lazy || SvREFCNT(SvRV(lazy)) != 1) {
        SvREFCNT_dec(lazy);
        lazy = NULL;
        lazy = call_constructor(aTHX_ "lazy");
    }
    return newRV_inc(SvRV(lazy));
}

/* Stores the real socket, and what the client has sent behind its request. */
void hd_upgrade_socket(pTHX_ HV *env) {
    SV *made = call_constructor(aTHX_ "attached");
    SV **unread = hv_fetchs(GvHVn((GV *)SvRV(made)), "unread", 0);
    if (unread)
        (void)hv_stores(env, "howdah.io.unread", newSVsv(*unread));
    (void)hv_stores(env, "psgix.io", made);
}

/* Takes the present request's connection from the front: a descriptor that the caller owns. */
int hd_take_socket(pTHX_ SV *unread) {
    int fd;
    if (hd.now.detached || hd.now.progress == HD_FINISHED)
        croak("psgix.io: the connection of this request is no longer at hand");
    if (hd_ask(aTHX_ MESSAGE_KIND_SOCKET, 0, NULL, 0, &fd, unread) != 0 || fd < 0)
        croak("psgix.io: the front does not hand over this connection");
    hd.now.detached = true;
    if (lazy)
        sv_2mortal(lazy);
    lazy = NULL;
    return fd;
}
