/*
 * psgi.input: a real, seekable file handle. Called by env.c.
 *
 * A body in the slot is copied into a scalar behind an in-memory handle, which is used again for the next request
 * when the application has let go of it; a request without a body is the same with an empty scalar. A body in an extent
 * is read where it lies, by a scalar that borrows its memory until the slot is given back. A spooled body's file comes
 * over the channel.
 */
#include "howdah.h"
#include "perliol.h"

static SV *text;     /* what the in-memory handle reads */
static SV *handle;   /* its glob */
static const HV *stash; /* the class of its inner handle */
static SV *borrowed; /* what the handle of the present request reads in an extent, if it does */

/* A new anonymous glob around `fp`. */
SV *hd_handle(pTHX_ PerlIO *fp) {
    GV *glob = (GV *)newSV(0);
    gv_init(glob, gv_stashpvs("Howdah::Input", GV_ADD), "input", 5, 0);
    IO *io = newIO();
    GvIOp(glob) = io;
    IoIFP(io) = fp;
    IoTYPE(io) = IoTYPE_RDONLY;
    return (SV *)glob;
}

/* A glob whose handle reads `content`. */
static SV *reader(pTHX_ SV *content) {
    SV *source = sv_2mortal(newRV_inc(content));
    PerlIO *fp = PerlIO_openn(aTHX_ ":scalar", "r", -1, 0, 0, NULL, 1, &source);
    if (!fp)
        croak("cannot open an in-memory handle: %s", Strerror(errno));
    return hd_handle(aTHX_ fp);
}

static void open_memory(pTHX) {
    SvREFCNT_dec(handle);
    SvREFCNT_dec(text);
    handle = NULL;
    text = newSVpvs("");
    handle = reader(aTHX_ text);
    stash = SvSTASH(GvIO((GV *)handle));
}

/* Once, in the zygote: what workers share is ready. */
void hd_prepare_input(pTHX) { open_memory(aTHX); }

static bool is_one_weak_reference(const MAGIC *magic) {
    return !magic->mg_moremagic && magic->mg_type == PERL_MAGIC_backref && magic->mg_obj &&
           SvTYPE(magic->mg_obj) != SVt_PVAV;
}

/*
 * Whether an application has left nothing with a glob that the next one would find: data of its own, as classes of handles have them
 * in its hash, another class than `class` (NULL for none), or a weak reference to it. An object of ours has one from its tie.
 */
bool hd_is_untouched(SV *glob, const HV *class) {
    const GV *gv = (const GV *)glob;
    const MAGIC *magic = SvMAGIC(glob);
    if (!isGV_with_GP(gv) || GvHV(gv) || GvAV(gv) || GvCV(gv) || (GvSV(gv) && SvOK(GvSV(gv))))
        return false;
    return class ? SvOBJECT(glob) && SvSTASH(glob) == class && magic && is_one_weak_reference(magic)
                 : !SvOBJECT(glob) && !magic;
}

/* Whether only this file refers to the handle, and nobody has closed it, pushed a layer, or left anything with it. */
static bool is_reusable(pTHX) {
    if (!handle || SvREFCNT(handle) != 1 || !hd_is_untouched(handle, NULL))
        return false;
    IO *io = GvIO((GV *)handle);
    PerlIO *fp = io && SvREFCNT(io) == 1 && !SvMAGIC(io) && SvSTASH(io) == stash ? IoIFP(io) : NULL;
    if (!fp || !*fp || strNE(PerlIOBase(fp)->tab->name, "scalar") || (PerlIOBase(fp)->flags & PERLIO_F_UTF8))
        return false;
    IoLINES(io) = 0;
    IoFLAGS(io) &= ~IOf_NOLINE; /* perl's, once it has read an empty body at one go */
    return SvREFCNT(text) == 2 && PerlIO_seek(fp, 0, SEEK_SET) == 0;
}

static SV *memory_input(pTHX_ const char *bytes, STRLEN length) {
    if (!is_reusable(aTHX))
        open_memory(aTHX);
    if (length || SvCUR(text))
        sv_setpvn(text, bytes, length);
    return SvREFCNT_inc_simple_NN(handle);
}

static SV *spooled_input(pTHX) {
    int fd;
    hd_reserve_descriptor(aTHX_ "the request body");
    if (hd_ask(aTHX_ MESSAGE_KIND_BODY, 0, NULL, 0, &fd, NULL) != 0 || fd < 0) {
        hd_check_client(aTHX); /* who has left takes the body along */
        croak("the front did not hand over the request body");
    }
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
    borrowed = newSV_type(SVt_PV);
    SvPV_set(borrowed, (char *)body);
    SvCUR_set(borrowed, length);
    SvLEN_set(borrowed, 0); /* perl neither writes to it nor frees it */
    SvPOK_only(borrowed);
    SvREADONLY_on(borrowed);
    return reader(aTHX_ borrowed);
}

/* Whether the present request's body is read where it lies. */
bool hd_borrows_input(void) { return borrowed; }

/* Whether nobody can read the borrowed memory any more but by the env, which nobody else has. */
static bool is_forgotten(pTHX) {
    HV *env = hd.now.env;
    if (!env || SvREFCNT(env) != 1 || SvREADONLY(env) || SvREFCNT(borrowed) != 2)
        return false;
    SV *input = hd_env_named(aTHX_ "psgi.input"), *handlers = hd_env_named(aTHX_ "psgix.cleanup.handlers");
    if (!input || !SvROK(input) || SvREFCNT(input) != 1 || SvREFCNT(SvRV(input)) != 1)
        return false;
    return !handlers || !SvROK(handlers) || SvTYPE(SvRV(handlers)) != SVt_PVAV || av_len((AV *)SvRV(handlers)) < 0;
}

/* Gives the memory of the present request's body back: who may still read it has a copy from now on. */
void hd_keep_input(pTHX) {
    if (!borrowed)
        return;
    SV *body = borrowed;
    borrowed = NULL;
    SvPV_set(body, savepvn(SvPVX(body), SvCUR(body)));
    SvLEN_set(body, SvCUR(body) + 1);
    SvREFCNT_dec(body);
}

/* The same, before the slot becomes somebody else's. What will only be freed reads nothing instead. */
void hd_return_input(pTHX) {
    if (!borrowed || !is_forgotten(aTHX)) {
        hd_keep_input(aTHX);
        return;
    }
    SvPV_set(borrowed, (char *)"");
    SvCUR_set(borrowed, 0);
    SvREFCNT_dec(borrowed);
    borrowed = NULL;
}

/* Before every fork: what the child reads must be its own. */
void hd_keep_input_for_child(void) {
    if (borrowed) {
        dTHX;
        hd_keep_input(aTHX);
    }
}

/* The glob for psgi.input; the caller has a reference to it. */
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
