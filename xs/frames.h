#ifndef HOWDAH_FRAMES_H
#define HOWDAH_FRAMES_H
/*
 * Where in the Perl code this process stands, read and put into words within a handler of a signal: for here.c, in a worker,
 * and for xs-fork/backtrace.c, in the process of a script.
 *
 * The signal comes at any moment, so perl may be about to change what is read here. Lengths, depths and steps are bounded;
 * a pointer may lead nowhere, and the handler sees to that fault. Nothing is written but the note, and nobody is called.
 */
#include "EXTERN.h"
#include "perl.h"

#define MOST_CALLS 100
#define MOST_STEPS 1000000
#define MOST_NESTED 200 /* operations of a statement */
#define LONGEST_NAME 512

/* What is said, until it is written. What has no room is left out. */
struct frames_note {
    size_t length;
    char bytes[16384];
};

/* Control characters would break the line. */
static inline void note_bytes(struct frames_note *note, const char *text, size_t length) {
    for (; length && note->length < sizeof note->bytes - 1; length--, text++)
        note->bytes[note->length++] = (U8)*text < ' ' || *text == 0x7f ? '?' : *text;
}

static inline void note_text(struct frames_note *note, const char *text) {
    size_t length = 0;
    while (length < LONGEST_NAME && text[length])
        length++;
    note_bytes(note, text, length);
}

static inline void note_number(struct frames_note *note, UV number) {
    char digits[24], *at = digits + sizeof digits;
    do
        *--at = '0' + number % 10;
    while (number /= 10);
    note_bytes(note, at, digits + sizeof digits - at);
}

static inline void note_line_end(struct frames_note *note) {
    if (note->length < sizeof note->bytes && note->length && note->bytes[note->length - 1] != '\n')
        note->bytes[note->length++] = '\n';
}

static inline void note_place(struct frames_note *note, const COP *cop) {
    const char *file = cop ? CopFILE(cop) : NULL;
    note_text(note, " at ");
    note_text(note, file ? file : "an unknown place");
    if (file) {
        note_text(note, " line ");
        note_number(note, CopLINE(cop));
    }
}

static inline void note_key(struct frames_note *note, const HEK *key) {
    size_t length = HEK_LEN(key) > 0 ? HEK_LEN(key) : 0;
    note_bytes(note, HEK_KEY(key), length < LONGEST_NAME ? length : LONGEST_NAME);
}

static inline void note_name(struct frames_note *note, HV *stash, const HEK *name) {
    const HEK *package = stash ? HvNAME_HEK(stash) : NULL;
    if (package) {
        note_key(note, package);
        note_text(note, "::");
    }
    note_key(note, name);
}

/* A frame that perl is about to leave has no sub any more. */
static inline void note_sub(struct frames_note *note, CV *cv) {
#ifdef CvNAMED
    if (cv && CvNAMED(cv)) {
        note_name(note, CvSTASH(cv), CvNAME_HEK(cv));
        return;
    }
#endif
    GV *gv = cv ? ((XPVCV *)SvANY(cv))->xcv_gv_u.xcv_gv : NULL;
    if (gv && isGV_with_GP(gv))
        note_name(note, GvSTASH(gv), GvNAME_HEK(gv));
    else
        note_text(note, "a sub");
}

struct frames_search {
    const OP *op; /* what is looked for */
    bool before;  /* and what leads to it */
    int steps;
};

/*
 * The last statement that begins before an operation, NULL when that is not below `from`. As perl does for `caller`: it
 * leaves out the statement at the start of a block that has no variables, so that PL_curcop is still the one around it.
 */
static inline const COP *closest_below(struct frames_search *search, const COP *cop, const OP *from, int depth) {
    if (!from || from == search->op || (search->before && from->op_next == search->op))
        return cop;
    if (!(from->op_flags & OPf_KIDS) || depth == MOST_NESTED)
        return NULL;
    for (const OP *kid = ((const UNOP *)from)->op_first; kid && search->steps < MOST_STEPS; kid = OpSIBLING(kid)) {
        search->steps++;
        if (kid->op_type == OP_NULL && kid->op_targ == OP_NEXTSTATE)
            cop = (const COP *)kid;
        const COP *found = closest_below(search, cop, kid, depth + 1);
        if (found)
            return found;
    }
    return NULL;
}

/* The statement that the operation is in, or that leads to it: of a call, what comes after its return is known. */
static inline const COP *closest_statement(const COP *cop, const OP *op, bool before) {
    struct frames_search search = {.op = op, .before = before};
    const COP *closest = cop && op ? closest_below(&search, cop, OpSIBLING((const OP *)cop), 0) : NULL;
    return closest ? closest : cop;
}

/* From where a frame was called. */
static inline const COP *place_of_call(const PERL_CONTEXT *frame) {
    return closest_statement(frame->blk_oldcop, frame->blk_sub.retop, true);
}

/* Loops and blocks are no calls, nor is try. */
static inline bool is_call(const PERL_CONTEXT *frame) {
    switch (CxTYPE(frame)) {
    case CXt_SUB:
    case CXt_FORMAT: return true;
#ifdef CxTRY
    case CXt_EVAL: return !CxTRY(frame);
#else
    case CXt_EVAL: return true;
#endif
    default: return false;
    }
}

/* Shows `tell` each call of all of perl's stacks, the innermost first, until that is false. True when it has seen all. */
static inline bool walk_calls(const PERL_SI *stack, bool (*tell)(const PERL_CONTEXT *frame)) {
    int steps = 0, calls = 0;
    for (; stack; stack = stack->si_prev)
        for (I32 at = stack->si_cxix < stack->si_cxmax ? stack->si_cxix : stack->si_cxmax; at >= 0; at--) {
            const PERL_CONTEXT *frame = &stack->si_cxstack[at];
            if (++steps > MOST_STEPS || (is_call(frame) && (calls++ == MOST_CALLS || !tell(frame))))
                return false;
        }
    return true;
}

#endif
