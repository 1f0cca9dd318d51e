/*
 * Removes what loading this object has left in perl: the modules' names, what DynaLoader has defined for it, and the name
 * of the block that loaded it. A script that looks through its symbol tables, %INC or @INC finds what it finds when it is
 * executed. Called once, before the script is compiled.
 */
#include "fork.h"

/* The glob may be in use by a block that runs; it stays in memory, without a name. */
static void forget(pTHX_ HV *stash, const char *name, I32 length) {
    SvREFCNT_inc(hv_delete(stash, name, length, 0));
}

/* perl defines this itself when it starts; XSLoader calls it again when the script loads something compiled. */
static bool is_of_perl(const char *name, I32 length) { return length == 15 && memEQ(name, "boot_DynaLoader", 15); }

static void forget_dynaloader(pTHX) {
    HV *stash = gv_stashpvs("DynaLoader", 0);
    HE *entry;
    if (!stash)
        return;
    hv_iterinit(stash);
    while ((entry = hv_iternext(stash))) {
        I32 length;
        const char *name = hv_iterkey(entry, &length);
        if (!is_of_perl(name, length))
            forget(aTHX_ stash, name, length);
    }
}

/* perls without threads have a glob for each file that they have compiled. */
static void forget_file(pTHX_ const char *name, I32 length) {
    SV *glob = sv_2mortal(newSVpvf("_<%.*s", (int)length, name));
    if (hv_exists_ent(PL_defstash, glob, 0))
        SvREFCNT_inc(hv_delete_ent(PL_defstash, glob, 0, 0));
}

/* Whatever is in it by now is ours. */
static void forget_loaded(pTHX) {
    HV *loaded = GvHVn(PL_incgv);
    HE *entry;
    hv_iterinit(loaded);
    while ((entry = hv_iternext(loaded))) {
        I32 length;
        const char *name = hv_iterkey(entry, &length);
        forget_file(aTHX_ name, length);
    }
    hv_clear(loaded);
}

void hf_remove_traces(pTHX) {
    forget_loaded(aTHX);
    forget_dynaloader(aTHX);
    forget(aTHX_ PL_defstash, "Howdah::", 8);
    forget(aTHX_ PL_defstash, "BEGIN", 5);
#ifdef PERL_VAR_MAX_NESTED_EVAL_BEGIN_BLOCKS /* made for the first such block */
    forget(aTHX_ PL_defstash, STR_WITH_LEN(PERL_VAR_MAX_NESTED_EVAL_BEGIN_BLOCKS));
#endif
    forget(aTHX_ gv_stashpvs("version", GV_ADD), "AUTOLOAD", 8); /* looked for by `use 5` */
}
