/*
 * psgi.input: a real, seekable file handle. Called by env.c.
 *
 * A body in the slot is copied into a scalar behind an in-memory handle, which is used again for the next request
 * when the application has let go of it; a request without a body is the same with an empty scalar. A spooled body's
 * file comes over the channel.
 */
#include "howdah.h"
#include "perliol.h"

/* A buffer larger than this is given back after a large body. */
#define LARGE (128 * 1024)

static SV *text;   /* what the in-memory handle reads */
static SV *handle; /* reference to its glob */

/* A reference to a new anonymous glob around `fp`. */
SV *hd_handle(pTHX_ PerlIO *fp) {
    GV *glob = (GV *)newSV(0);
    gv_init(glob, gv_stashpvs("Howdah::Input", GV_ADD), "input", 5, 0);
    IO *io = newIO();
    GvIOp(glob) = io;
    IoIFP(io) = fp;
    IoTYPE(io) = IoTYPE_RDONLY;
    return newRV_noinc((SV *)glob);
}

static void open_memory(pTHX) {
    SvREFCNT_dec(handle);
    SvREFCNT_dec(text);
    text = newSVpvs("");
    SV *source = sv_2mortal(newRV_inc(text));
    PerlIO *fp = PerlIO_openn(aTHX_ ":scalar", "r", -1, 0, 0, NULL, 1, &source);
    if (!fp)
        croak("cannot open an in-memory handle: %s", Strerror(errno));
    handle = hd_handle(aTHX_ fp);
}

/* Once, in the zygote: what workers share is ready. */
void hd_prepare_input(pTHX) { open_memory(aTHX); }

/* Whether only this file refers to the handle, and nobody has closed it or pushed a layer. */
static bool is_reusable(pTHX) {
    if (!handle || SvREFCNT(SvRV(handle)) != 1 || SvREFCNT(handle) != 1)
        return false;
    IO *io = GvIO((GV *)SvRV(handle));
    PerlIO *fp = io && SvREFCNT(io) == 1 && !SvRMAGICAL(io) ? IoIFP(io) : NULL;
    if (!fp || !*fp || strNE(PerlIOBase(fp)->tab->name, "scalar") || (PerlIOBase(fp)->flags & PERLIO_F_UTF8))
        return false;
    IoLINES(io) = 0;
    return SvREFCNT(text) == 2 && PerlIO_seek(fp, 0, SEEK_SET) == 0;
}

static SV *memory_input(pTHX_ const char *bytes, STRLEN length) {
    if (!is_reusable(aTHX))
        open_memory(aTHX);
    if (SvLEN(text) > LARGE && length < LARGE)
        SvPV_renew(text, LARGE);
    if (length || SvCUR(text))
        sv_setpvn(text, bytes, length);
    return newRV_inc(SvRV(handle));
}

static SV *spooled_input(pTHX) {
    int fd;
    if (hd_ask(aTHX_ MESSAGE_KIND_BODY, 0, NULL, 0, &fd, NULL) != 0 || fd < 0)
        croak("the front did not hand over the request body");
    PerlIO *fp = lseek(fd, 0, SEEK_SET) == 0 ? PerlIO_fdopen(fd, "r") : NULL;
    if (!fp)
        croak("cannot open the request body: %s", Strerror(errno));
    return hd_handle(aTHX_ fp);
}

static SV *extent_input(pTHX_ const RequestRecord *request) {
    U64 length = HD_LOAD64(request->body_length);
    const char *body = (const char *)howdah_extent(hd.now.slot, HD_LOAD(request->extent));
    if (!body || length > EXTENT)
        hd_damaged(aTHX);
    return memory_input(aTHX_ body, length);
}

SV *hd_input(pTHX_ const RequestRecord *request) {
    U32 flags = HD_LOAD(request->flags);
    if (flags & REQUEST_SPOOLED)
        return spooled_input(aTHX);
    if (flags & REQUEST_EXTENT)
        return extent_input(aTHX_ request);
    STRLEN length;
    const char *body = hd_text(aTHX_ &request->body, &length);
    return memory_input(aTHX_ body, length);
}
