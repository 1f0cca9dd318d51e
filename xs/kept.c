/*
 * The env between two requests. When a request has ended and nobody else has its env, what the application left in there
 * goes, and what is still as env.c made it stays, for env.c to fill anew.
 *
 * Whatever an application may have done with a value is seen here: it has taken a reference to it or put another one in its
 * place, changed it, made it something else, tied it. Such a value is deleted as one of the application's own is.
 */
#include "env.h"

#define LONGEST_TEXT 1024 /* bytes; a longer string's memory is not kept */
#define MOST_BUCKETS 256  /* an env has 64 of them at first */
#define MOST_FOREIGN 64   /* keys of an application's; with more of them no env is kept */

#ifndef HvHasAUX
#define HvHasAUX(hv) SvOOK(hv)
#endif

static HV *kept;
static bool is_clean; /* nothing of a request is left in there */
static U32 lists;     /* that it has */

/* No key stands anywhere, as far as we know. */
static void lose_places(void) {
    for (U32 i = 0; i < hd_key_count; i++)
        hd_keys[i].entry = NULL;
    lists = 0;
}

/* The next env is a new one: also in a process whose workers are to begin with one of their own. */
void hd_forget_env(pTHX) {
    HV *env = kept;
    kept = NULL;
    lose_places();
    SvREFCNT_dec(env);
}

/* Between two requests: how many of perl's values are here for the next one, which no request has left behind. */
IV hd_count_kept(void) { return hd_key_count + (kept ? 1 + HvTOTALKEYS(kept) + lists : 0); }

/* The env to be filled for a request. */
HV *hd_take_env(pTHX) {
    if (!is_clean)
        hd_forget_env(aTHX);
    if (!kept) {
        kept = newHV();
        hv_ksplit(kept, 40); /* room for the usual header fields, too */
    }
    is_clean = false;
    return kept;
}

static bool has_weak_references(HV *env) { return sv_get_backrefs((SV *)env); }

/* Whether only this file has it, and it is the plain hash that it was. */
static bool is_ours(HV *env) {
    return SvREFCNT(env) == 1 && SvTYPE(env) == SVt_PVHV && !SvOBJECT(env) && !SvMAGIC(env) && !SvREADONLY(env) &&
           HvARRAY(env) && HvSHAREKEYS(env) && HvMAX(env) < MOST_BUCKETS && !has_weak_references(env);
}

static bool is_constant(const struct hd_key *key, SV *value) {
    const SV *constant = key->constant;
    if (SvFLAGS(value) != SvFLAGS(constant))
        return false;
    if (value->sv_u.svu_pv == constant->sv_u.svu_pv) /* the address of a string, or of what is referred to */
        return true;
    return SvPOK(value) && SvCUR(value) == SvCUR(constant) && memEQ(SvPVX_const(value), SvPVX_const(constant), SvCUR(value));
}

/* What has magic is of another type. */
static bool is_text(SV *value) {
    const svtype type = SvTYPE(value);
    return (type == SVt_PV || type == SVt_PVIV || type == SVt_PVNV) && !SvROK(value) && SvLEN(value) <= LONGEST_TEXT;
}

static bool is_reference(SV *value) { return SvTYPE(value) == SVt_IV && SvROK(value) && !SvWEAKREF(value); }

static bool is_list(SV *value) {
    AV *list = is_reference(value) && SvTYPE(SvRV(value)) == SVt_PVAV ? (AV *)SvRV(value) : NULL;
    return list && SvREFCNT(list) == 1 && !SvOBJECT(list) && !SvMAGIC(list) && !SvREADONLY(list) && AvFILLp(list) < 0;
}

/* Whether env.c can go on with the value. */
static bool is_usable(const struct hd_key *key, SV *value) {
    if (SvREFCNT(value) != 1 || SvREADONLY(value))
        return false;
    switch (key->kind) {
    case HD_CONSTANT:
        return is_constant(key, value);
    case HD_TEXT:
        return is_text(value);
    case HD_REFERENCE:
        return is_reference(value);
    case HD_LIST:
        return is_list(value);
    default:
        return false;
    }
}

/* Notes where keys of ours stand, and what has to go; how many these are. Runs no code. */
static U32 inspect(HV *env, HE **foreign) {
    U32 count = 0;
    for (STRLEN bucket = 0; bucket <= HvMAX(env); bucket++)
        for (HE *entry = HvARRAY(env)[bucket]; entry; entry = HeNEXT(entry)) {
            struct hd_key *key = hd_key_at(HeKEY(entry));
            if (key && is_usable(key, HeVAL(entry))) {
                key->entry = entry;
                lists += key->kind == HD_LIST;
            } else if (count++ < MOST_FOREIGN)
                foreign[count - 1] = entry;
        }
    return count;
}

void hd_delete_entry(pTHX_ HV *env, HE *entry) {
    (void)hv_common(env, NULL, HeKEY(entry), HeKLEN(entry), HeKUTF8(entry) ? HVhek_UTF8 : 0, HV_DELETE | G_DISCARD, NULL,
                    HeHASH(entry));
}

/* What is made for a request goes with it. Its place stays. */
static void let_go(pTHX_ struct hd_key *key) {
    SV *value = HeVAL(key->entry), *target = SvRV(value);
    SvROK_off(value);
    SvRV_set(value, NULL);
    SvREFCNT_dec(target);
}

/* Destructors may run from here on. They cannot reach the env, which nobody else has. */
static void clear(pTHX_ HV *env, HE **foreign, U32 count) {
    for (U32 i = 0; i < count; i++)
        hd_delete_entry(aTHX_ env, foreign[i]);
    for (U32 i = 0; i < hd_fixed_keys; i++)
        if (hd_keys[i].kind == HD_REFERENCE && hd_keys[i].entry)
            let_go(aTHX_ & hd_keys[i]);
}

/* The present request has ended, and needs its env no more. */
void hd_release_env(pTHX) {
    HE *foreign[MOST_FOREIGN];
    HV *env = kept;
    is_clean = false;
    if (!env)
        return;
    lose_places();
    hd_renew_keys(aTHX);
    if (HvHasAUX(env) && SvREFCNT(env) == 1)
        hv_iterinit(env); /* an application may have stopped in the midst of its keys */
    U32 count = is_ours(env) ? inspect(env, foreign) : MOST_FOREIGN + 1;
    if (count > MOST_FOREIGN) {
        hd_forget_env(aTHX);
        return;
    }
    clear(aTHX_ env, foreign, count);
    is_clean = true;
}
