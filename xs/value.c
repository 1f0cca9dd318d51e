/*
 * Values of the present env, as the application has left them. Called by whoever wants one: nothing else of the env is known here.
 */
#include "howdah.h"

/* A value of the present env by a name that is shared; NULL when there is none. To look for what a locked hash has not is to die. */
SV *hd_env_value(pTHX_ SV *name) {
    HV *env = hd.now.env;
    if (!env || (UNLIKELY(SvREADONLY(env)) && !hv_exists_ent(env, name, SvSHARED_HASH(name))))
        return NULL;
    HE *entry = hv_fetch_ent(env, name, 0, SvSHARED_HASH(name));
    return entry ? HeVAL(entry) : NULL;
}

/* The same by any name. */
SV *hd_env_named(pTHX_ const char *name) {
    HV *env = hd.now.env;
    const I32 length = strlen(name);
    if (!env || (SvREADONLY(env) && !hv_exists(env, name, length)))
        return NULL;
    SV **value = hv_fetch(env, name, length, 0);
    return value ? *value : NULL;
}
