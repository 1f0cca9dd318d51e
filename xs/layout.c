/*
 * Tells whoever may read this process's memory where perl keeps what it does: `howdah where` and `howdah profile` look
 * from outside, so that they cost the application nothing. Called by zygote.c before the first fork; workers inherit it.
 *
 * What is told is a page of its own, found by the name of its mapping. It is written once and never read here.
 */
#include "howdah.h"
#include "control.h"

#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

/* crates/peek knows it, too. */
#define NAME "howdah-perl"

#define ADDRESS(thing) ((U64)(uintptr_t)&(thing))
#define EXCHANGE(field) offsetof(struct hd_exchange, field)

#ifdef USE_ITHREADS
#define COP_FILE offsetof(COP, cop_file)
#define IN_PAD 1
#else
#define COP_FILE offsetof(COP, cop_filegv)
#define IN_PAD 0
#endif

#ifdef CVf_NAMED
#define NAMED CVf_NAMED
#else
#define NAMED 0
#endif

#if PERL_VERSION >= 35
#define AUX_BEHIND 0
#define AUX(field) (offsetof(struct xpvhv_with_aux, xhv_aux) + offsetof(struct xpvhv_aux, field))
#else
#define AUX_BEHIND 1
#define AUX(field) offsetof(struct xpvhv_aux, field)
#endif

/* What stands in the word at `op_type` of an operation whose bit field has been set. */
static U32 word_of(const OP *op, size_t at) {
    U32 word;
    memcpy(&word, (const char *)op + at, sizeof word);
    return word;
}

/* A bit field has no address. */
static void tell_bits(PerlLayout *layout) {
    OP type, sibling;
    size_t at = offsetof(OP, op_targ) + sizeof(PADOFFSET);
    Zero(&type, 1, OP);
    type.op_type = 0x1ff;
    layout->op_type = at;
    layout->op_type_mask = word_of(&type, at);
    Zero(&sibling, 1, OP);
    sibling.op_moresib = 1;
    layout->op_sibling = offsetof(OP, op_sibparent);
    layout->op_moresib_mask = word_of(&sibling, at);
}

static void tell_operations(PerlLayout *layout) {
    tell_bits(layout);
    layout->op_targ = offsetof(OP, op_targ);
    layout->op_first = offsetof(UNOP, op_first);
    layout->op_value = offsetof(SVOP, op_sv);
    layout->gv_in_pad = IN_PAD;
    layout->cop_size = sizeof(COP);
    layout->cop_line = offsetof(COP, cop_line);
    layout->cop_file = COP_FILE;
    layout->cop_file_is_gv = !IN_PAD;
    layout->op_names_at = (U64)(uintptr_t)PL_op_name;
    layout->op_names = MAXO;
}

static void tell_stacks(PerlLayout *layout) {
    layout->si_size = sizeof(PERL_SI);
    layout->si_contexts = offsetof(PERL_SI, si_cxstack);
    layout->si_prev = offsetof(PERL_SI, si_prev);
    layout->si_top = offsetof(PERL_SI, si_cxix);
    layout->si_room = offsetof(PERL_SI, si_cxmax);
    layout->context_size = sizeof(PERL_CONTEXT);
    layout->context_type = offsetof(PERL_CONTEXT, cx_type);
    layout->context_type_mask = CXTYPEMASK;
    layout->context_sub = CXt_SUB;
    layout->context_format = CXt_FORMAT;
    layout->context_oldcop = offsetof(PERL_CONTEXT, blk_oldcop);
    layout->context_cv = offsetof(PERL_CONTEXT, blk_sub.cv);
}

static void tell_values(PerlLayout *layout) {
    layout->sv_any = offsetof(SV, sv_any);
    layout->sv_flags = offsetof(SV, sv_flags);
    layout->sv_u = offsetof(SV, sv_u);
    layout->sv_rok = SVf_ROK;
    layout->pv_cur = offsetof(XPV, xpv_cur);
    layout->cv_flags = offsetof(XPVCV, xcv_flags);
    layout->cv_gv = offsetof(XPVCV, xcv_gv_u);
    layout->cv_stash = offsetof(XPVCV, xcv_stash);
    layout->cv_start = offsetof(XPVCV, xcv_start_u);
    layout->cv_anon = CVf_ANON;
    layout->cv_named = NAMED;
    layout->cv_is_xsub = CVf_ISXSUB;
    layout->gv_name = offsetof(XPVGV, xiv_u);
    layout->gv_stash = offsetof(XPVGV, xnv_u);
    layout->gp_cv = offsetof(GP, gp_cv);
    layout->hv_max = offsetof(XPVHV, xhv_max);
    layout->hv_name = AUX(xhv_name_u);
    layout->hv_name_count = AUX(xhv_name_count);
    layout->hv_aux_behind = AUX_BEHIND;
    layout->hek_length = offsetof(HEK, hek_len);
    layout->hek_key = offsetof(HEK, hek_key);
}

static void tell_exchange(PerlLayout *layout) {
    layout->exchange_at = ADDRESS(hd.now);
    layout->exchange_size = sizeof hd.now;
    layout->exchange_progress = EXCHANGE(progress);
    layout->exchange_serial = EXCHANGE(serial);
    layout->exchange_request = EXCHANGE(request);
    layout->exchange_used = EXCHANGE(used);
    layout->exchange_control = EXCHANGE(control);
}

/* The mapping stays; without it nothing else changes. */
static void leave(const PerlLayout *layout) {
    int fd = memfd_create(NAME, MFD_CLOEXEC);
    if (fd < 0)
        return;
    if (write(fd, layout, sizeof *layout) == sizeof *layout)
        (void)mmap(NULL, sizeof *layout, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
}

void hd_tell_layout(pTHX) {
    PerlLayout layout;
    Zero(&layout, 1, PerlLayout);
    layout.op_at = ADDRESS(PL_op);
    layout.curcop_at = ADDRESS(PL_curcop);
    layout.stackinfo_at = ADDRESS(PL_curstackinfo);
    layout.curpad_at = ADDRESS(PL_curpad);
    tell_operations(&layout);
    tell_stacks(&layout);
    tell_values(&layout);
    tell_exchange(&layout);
    layout.magic = PERL_LAYOUT_MAGIC;
    leave(&layout);
}
