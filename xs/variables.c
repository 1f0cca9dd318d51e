/*
 * What a CGI script that is kept finds in %ENV. Called by Howdah::CGI::Environment and Howdah::CGI::State.
 */
#include "script.h"

/* A field of the request's header whose name no letter of another case and no other sign makes ambiguous. */
static bool is_field(const char *name, STRLEN length) {
    static const char prefix[] = "HTTP_";
    if (length < sizeof prefix || memNE(name, prefix, sizeof prefix - 1))
        return false;
    for (STRLEN i = sizeof prefix - 1; i < length; i++)
        if (!isUPPER_A(name[i]) && !isDIGIT_A(name[i]) && name[i] != '_')
            return false;
    return true;
}

/* As perl's functions of hashes have it. */
static I32 length_of_key(const HE *entry, STRLEN length) {
    return HeUTF8(entry) ? -(I32)length : (I32)length;
}

/* Into `all` the fields of the header in `env`, but those that are in `hidden`. */
void hd_add_fields(pTHX_ HV *all, HV *env, HV *hidden) {
    hv_iterinit(env);
    for (HE *entry; (entry = hv_iternext(env));) {
        STRLEN length;
        const char *name = HePV(entry, length);
        if (is_field(name, length) && !hv_exists(hidden, name, (I32)length))
            sv_setsv(*hv_fetch(all, name, (I32)length, 1), hv_iterval(env, entry));
    }
}

/* Makes %ENV what is wanted. Most variables are what they were in the last request, and to set one is to have the C library
 * set it. */
void hd_set_variables(pTHX_ HV *wanted) {
    HV *now = GvHVn(PL_envgv);
    hv_iterinit(now);
    for (HE *entry; (entry = hv_iternext(now));) {
        STRLEN length;
        const char *name = HePV(entry, length);
        const I32 key = length_of_key(entry, length);
        if (!hv_exists(wanted, name, key))
            (void)hv_delete(now, name, key, G_DISCARD);
    }
    hv_iterinit(wanted);
    for (HE *entry; (entry = hv_iternext(wanted));) {
        STRLEN length;
        const char *name = HePV(entry, length);
        SV *value = hv_iterval(wanted, entry);
        SV *there = *hv_fetch(now, name, length_of_key(entry, length), 1);
        if (!SvOK(there) || !sv_eq(there, value))
            sv_setsv_mg(there, value);
    }
}
