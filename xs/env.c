/*
 * From the request record in the slot, which request.c reads, to the PSGI env. Called by exchange.c before the
 * application; the body's handle comes from input.c, the socket from socket.c.
 *
 * What is the same in every request stands in a template hash that is cloned: that copies keys and values without
 * hashing anything. The rest is stored under keys that are hashed once.
 */
#include "howdah.h"

static const struct {
    const char *name;
    STRLEN length;
    size_t at; /* of the Span in the record */
} SPANS[] = {
#define SPAN(name, field) {name, sizeof name - 1, offsetof(RequestRecord, field)}
    SPAN("REQUEST_METHOD", method),   SPAN("REQUEST_URI", uri),
    SPAN("PATH_INFO", path),          SPAN("QUERY_STRING", query),
    SPAN("SERVER_PROTOCOL", protocol), SPAN("SERVER_NAME", server_name),
    SPAN("SERVER_PORT", server_port), SPAN("REMOTE_ADDR", remote_addr),
    SPAN("REMOTE_PORT", remote_port),
#undef SPAN
};
#define SPAN_COUNT (sizeof SPANS / sizeof *SPANS)

static HV *template;
static SV *span_keys[SPAN_COUNT];
static SV *input_key, *socket_key, *cleanup_key;

static SV *shared_key(pTHX_ const char *name, STRLEN length) { return newSVpvn_share(name, length, 0); }

static void store(pTHX_ HV *env, SV *key, SV *value) {
    if (!hv_store_ent(env, key, value, SvSHARED_HASH(key)))
        SvREFCNT_dec(value);
}

static SV *psgi_version(pTHX) {
    AV *version = newAV();
    av_push(version, newSViv(1));
    av_push(version, newSViv(1));
    return newRV_noinc((SV *)version);
}

static void set(pTHX_ const char *name, SV *value) { (void)hv_store(template, name, strlen(name), value, 0); }

/* Keys as the PSGI specification and PSGI::Extensions demand them. Once, in the zygote. */
void hd_prepare_env(pTHX) {
    template = newHV();
    hv_ksplit(template, 40); /* room for the usual header fields too: a clone has the same size */
    set(aTHX_ "SCRIPT_NAME", newSVpvs(""));
    set(aTHX_ "psgi.version", psgi_version(aTHX));
    set(aTHX_ "psgi.url_scheme", newSVpvs("http"));
    set(aTHX_ "psgi.errors", newRV_inc((SV *)PL_stderrgv));
    set(aTHX_ "psgi.multithread", newSVsv(&PL_sv_no));
    set(aTHX_ "psgi.multiprocess", newSVsv(&PL_sv_yes));
    set(aTHX_ "psgi.run_once", newSVsv(&PL_sv_no));
    set(aTHX_ "psgi.nonblocking", newSVsv(&PL_sv_no));
    set(aTHX_ "psgi.streaming", newSVsv(&PL_sv_yes));
    set(aTHX_ "psgix.input.buffered", newSVsv(&PL_sv_yes));
    set(aTHX_ "psgix.cleanup", newSVsv(&PL_sv_yes));
    set(aTHX_ "psgix.harakiri", newSVsv(&PL_sv_yes));
    set(aTHX_ "psgix.informational", newRV_inc((SV *)get_cv("Howdah::XS::informational", GV_ADD)));
    for (size_t i = 0; i < SPAN_COUNT; i++)
        span_keys[i] = shared_key(aTHX_ SPANS[i].name, SPANS[i].length);
    input_key = shared_key(aTHX_ STR_WITH_LEN("psgi.input"));
    socket_key = shared_key(aTHX_ STR_WITH_LEN("psgix.io"));
    cleanup_key = shared_key(aTHX_ STR_WITH_LEN("psgix.cleanup.handlers"));
}

static SV *value_of(pTHX_ const Span *span) {
    STRLEN length;
    const char *text = hd_text(aTHX_ span, &length);
    return newSVpvn(text, length);
}

static void store_spans(pTHX_ HV *env, const RequestRecord *request) {
    for (size_t i = 0; i < SPAN_COUNT; i++)
        store(aTHX_ env, span_keys[i], value_of(aTHX_ (const Span *)((const char *)request + SPANS[i].at)));
}

static void store_fields(pTHX_ HV *env) {
    U32 left;
    for (const FieldRecord *field = hd_fields(&left); left; left--, field++) {
        STRLEN length;
        const char *name = hd_text(aTHX_ &field->name, &length);
        SV *value = value_of(aTHX_ &field->value);
        if (!hv_store(env, name, length, value, 0))
            SvREFCNT_dec(value);
    }
}

static void store_flags(pTHX_ HV *env, U32 flags) {
    if (flags & REQUEST_HTTPS) {
        (void)hv_stores(env, "psgi.url_scheme", newSVpvs("https"));
        (void)hv_stores(env, "HTTPS", newSVpvs("on"));
    }
}

/* Makes the env of the present request. */
void hd_build_env(pTHX_ const RequestRecord *request) {
    if (!hd.now.used)
        hd_damaged(aTHX);
    HV *env = hd.now.env = newHVhv(template); /* exchange.c gives it back, also when something below dies */
    store_spans(aTHX_ env, request);
    store(aTHX_ env, input_key, hd_input(aTHX_ request));
    store(aTHX_ env, socket_key, hd_lazy_socket(aTHX));
    store(aTHX_ env, cleanup_key, newRV_noinc((SV *)newAV()));
    store_fields(aTHX_ env);
    store_flags(aTHX_ env, HD_LOAD(request->flags));
}
