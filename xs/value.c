/*
 * Values of the present env, as the application has left them. Called by whoever wants one: nothing else of the env is known here.
 */
#include "howdah.h"

/* To look for what a locked hash has not is to die, so there it has to be asked before. Not one that is tied: to ask it is to call code
 * of the application's, which may die as well, and at the end of a request nobody is there to catch that. */
static bool is_locked(pTHX_ HV *env) {
    return UNLIKELY(SvREADONLY(env)) && !(SvRMAGICAL(env) && mg_find((SV *)env, PERL_MAGIC_tied));
}

/* A value of the present env by a name that is shared; NULL when there is none. */
SV *hd_env_value(pTHX_ SV *name) {
    HV *env = hd.now.env;
    if (!env || (is_locked(aTHX_ env) && !hv_exists_ent(env, name, SvSHARED_HASH(name))))
        return NULL;
    HE *entry = hv_fetch_ent(env, name, 0, SvSHARED_HASH(name));
    return entry ? HeVAL(entry) : NULL;
}

/* The same by any name. */
SV *hd_env_named(pTHX_ const char *name) {
    HV *env = hd.now.env;
    const I32 length = strlen(name);
    if (!env || (is_locked(aTHX_ env) && !hv_exists(env, name, length)))
        return NULL;
    SV **value = hv_fetch(env, name, length, 0);
    return value ? *value : NULL;
}
