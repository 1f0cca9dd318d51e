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

/* Whether a request's value says anything. */
static bool has_text(const SV *value) { return SvPOK(value) ? SvCUR(value) > 0 : SvOK(value); }

/* A copy of `fixed` with what `env` has of a request: the fields of its header, but those that are in `hidden`, and of the names in
 * `wanted` those that have a value. */
HV *hd_request_variables(pTHX_ HV *fixed, HV *env, HV *hidden, HV *wanted) {
    HV *all = (HV *)sv_2mortal((SV *)newHVhv(fixed));
    hv_iterinit(env);
    for (HE *entry; (entry = hv_iternext(env));) {
        STRLEN length;
        const char *name = HePV(entry, length);
        const bool is_header = is_field(name, length);
        if (hv_exists(is_header ? hidden : wanted, name, (I32)length) == is_header)
            continue;
        SV *value = hv_iterval(env, entry);
        SvGETMAGIC(value);
        if (is_header || has_text(value))
            sv_setsv_nomg(*hv_fetch(all, name, (I32)length, 1), value);
    }
    return all;
}

static bool is_set; /* %ENV is that of the last script */

/* Between two requests: how many of perl's values are in an %ENV that the next script will have made what it wants. */
IV hd_count_variables(pTHX) { return is_set ? HvTOTALKEYS(GvHVn(PL_envgv)) : 0; }

/* The hash whose elements the C library has, which a script may have put another in the place of (*ENV = {...}), or tied. */
static HV *environment(pTHX) {
    static HV *first;
    if (!first)
        first = (HV *)SvREFCNT_inc_simple_NN((SV *)GvHVn(PL_envgv));
    if (GvHV(PL_envgv) != first) {
        SvREFCNT_dec(GvHV(PL_envgv));
        GvHV(PL_envgv) = (HV *)SvREFCNT_inc_simple_NN((SV *)first);
    }
    if (mg_find((SV *)first, PERL_MAGIC_tied))
        sv_unmagic((SV *)first, PERL_MAGIC_tied);
    return first;
}

/* Makes %ENV what is wanted. Most variables are what they were in the last request, and to set one is to have the C library
 * set it. */
void hd_set_variables(pTHX_ HV *wanted) {
    HV *now = environment(aTHX);
    is_set = true;
    hv_iterinit(wanted);
    for (HE *entry; (entry = hv_iternext(wanted));) {
        STRLEN length;
        const char *name = HePV(entry, length);
        SV *value = HeVAL(entry);
        SV *there = *hv_fetch(now, name, length_of_key(entry, length), 1);
        if (!SvOK(there) || !sv_eq(there, value))
            sv_setsv_mg(there, value);
    }
    if (HvUSEDKEYS(now) == HvUSEDKEYS(wanted))
        return;
    hv_iterinit(now);
    for (HE *entry; (entry = hv_iternext(now));) {
        STRLEN length;
        const char *name = HePV(entry, length);
        const I32 key = length_of_key(entry, length);
        if (!hv_exists(wanted, name, key))
            (void)hv_delete(now, name, key, G_DISCARD);
    }
}

/* Of a value that is undef, a string or a whole number. */
static bool has_value(pTHX_ SV *variable, SV *value) {
    SvGETMAGIC(variable);
    if (SvROK(variable) || !SvOK(value))
        return !SvOK(variable) && !SvOK(value);
    return SvPOK(value) ? SvPOK(variable) && sv_eq_flags(variable, value, 0) : SvIOK(variable) && SvIV_nomg(variable) == SvIV(value);
}

/* Gives variables the values that stand behind references to them. Returns, in the same form, what those have been that had others. */
AV *hd_set_values(pTHX_ AV *pairs) {
    AV *before = (AV *)sv_2mortal((SV *)newAV());
    for (SSize_t i = 1; i <= av_top_index(pairs); i += 2) {
        SV *variable = SvRV(AvARRAY(pairs)[i - 1]), *value = AvARRAY(pairs)[i];
        if (has_value(aTHX_ variable, value))
            continue;
        av_push(before, newRV_inc(variable));
        av_push(before, newSVsv_nomg(variable));
        sv_setsv_mg(variable, value);
    }
    return before;
}
