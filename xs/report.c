/*
 * Tells the front the variables of the env that its access log wants: %u and %{X}e. Called by exchange.c just before
 * the slot is finished, so that what application and middleware have set by then is seen. When the log wants none,
 * nothing happens here.
 *
 * Nobody's code is called any more at this point: a value that is no plain one (a reference, a tied one) counts as none.
 */
#include "howdah.h"

static SV *names[REPORT_MOST];
static int count;

/* Once, in the zygote, when the segment is mapped. */
void hd_prepare_report(pTHX) {
    const U8 *at = howdah_report_names();
    for (; at && *at && count < REPORT_MOST; at += 1 + *at)
        names[count++] = newSVpvn_share((const char *)at + 1, *at, 0);
}

static SV *plain_value(pTHX_ SV *name) {
    SV *value = hd_env_value(aTHX_ name);
    return value && SvOK(value) && !SvROK(value) && !SvGMAGICAL(value) ? value : NULL;
}

/* Characters below 256 are bytes, as in all that PSGI hands over; with others among them the value is UTF-8. */
static const char *bytes_of(pTHX_ SV *value, STRLEN *length) {
    if (SvUTF8(value)) {
        value = sv_mortalcopy(value);
        sv_utf8_downgrade(value, true);
    }
    return SvPV_nomg_const(value, *length);
}

/* Writes a value, or as much of it as each may have; returns its end. */
static U8 *put(pTHX_ U8 *at, SV *value) {
    STRLEN length = 0, most = REPORT_AREA / count - sizeof(uint16_t);
    const char *bytes = value ? bytes_of(aTHX_ value, &length) : NULL;
    length = length < most ? length : most;
    uint16_t told = value ? length : REPORT_NONE;
    memcpy(at, &told, sizeof told);
    if (length)
        memcpy(at + sizeof told, bytes, length);
    return at + sizeof told + length;
}

/* Those that are missing are told where others follow. */
void hd_report(pTHX) {
    if (!count || !hd.now.env)
        return;
    U8 *area = howdah_report(hd.now.slot), *end = area;
    int told = 0;
    for (int i = 0; i < count; i++) {
        SV *value = plain_value(aTHX_ names[i]);
        if (!value)
            continue;
        for (; told < i; told++)
            end = put(aTHX_ end, NULL);
        end = put(aTHX_ end, value);
        told++;
    }
    howdah_reported(hd.now.slot, end - area);
}
