/*
 * From the request record in the slot, which request.c reads, to the PSGI env. Called by exchange.c before the
 * application; the body's handle comes from input.c, the socket from socket.c.
 *
 * An env that nobody has kept when its request ended is filled anew for the next one (kept.c): a value that is still as
 * it was is left or written over where it stands, and only what is missing is made.
 */
#include "env.h"

/* The keys that every env has, by the order in which they are added. */
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

/* Keys as the PSGI specification and PSGI::Extensions demand them. */
static struct hd_key *const span_keys = hd_keys;
static struct hd_key *script, *scheme, *input, *socket_key, *cleanup, *commit, *constants; /* the latter are the last */

static SV *psgi_version(pTHX) {
    AV *version = newAV();
    av_push(version, newSViv(1));
    av_push(version, newSViv(1));
    return newRV_noinc((SV *)version);
}

static struct hd_key *add(pTHX_ const char *name, enum hd_kind kind) {
    return hd_add_key(aTHX_ name, strlen(name), kind);
}

static void add_constant(pTHX_ const char *name, SV *value) { add(aTHX_ name, HD_CONSTANT)->constant = value; }

/* Once, in the zygote. */
void hd_prepare_env(pTHX) {
    for (size_t i = 0; i < SPAN_COUNT; i++)
        hd_add_key(aTHX_ SPANS[i].name, SPANS[i].length, HD_TEXT);
    script = add(aTHX_ "SCRIPT_NAME", HD_TEXT);
    scheme = add(aTHX_ "psgi.url_scheme", HD_TEXT);
    input = add(aTHX_ "psgi.input", HD_REFERENCE);
    socket_key = add(aTHX_ "psgix.io", HD_REFERENCE);
    cleanup = add(aTHX_ "psgix.cleanup.handlers", HD_LIST);
    commit = add(aTHX_ "psgix.harakiri.commit", HD_FOREIGN);
    constants = hd_keys + hd_key_count;
    add_constant(aTHX_ "psgi.version", psgi_version(aTHX));
    add_constant(aTHX_ "psgi.errors", newRV_inc((SV *)PL_stderrgv));
    add_constant(aTHX_ "psgi.multithread", newSVsv(&PL_sv_no));
    add_constant(aTHX_ "psgi.multiprocess", newSVsv(&PL_sv_yes));
    add_constant(aTHX_ "psgi.run_once", newSVsv(&PL_sv_no));
    add_constant(aTHX_ "psgi.nonblocking", newSVsv(&PL_sv_no));
    add_constant(aTHX_ "psgi.streaming", newSVsv(&PL_sv_yes));
    add_constant(aTHX_ "psgix.input.buffered", newSVsv(&PL_sv_yes));
    add_constant(aTHX_ "psgix.cleanup", newSVsv(&PL_sv_yes));
    add_constant(aTHX_ "psgix.harakiri", newSVsv(&PL_sv_yes));
    add_constant(aTHX_ "psgix.informational", newRV_inc((SV *)get_cv("Howdah::XS::informational", GV_ADD)));
    hd_fixed_keys = hd_key_count;
}

static void store(pTHX_ HV *env, struct hd_key *key, SV *value) {
    key->entry = hv_store_ent(env, key->name, value, SvSHARED_HASH(key->name));
    if (!key->entry)
        SvREFCNT_dec(value);
}

/* kept.c has seen that it is a string which nobody else has. */
static void write_over(pTHX_ SV *value, const char *text, STRLEN length) {
    if (SvIsCOW(value) || SvLEN(value) < length + 2) { /* a copy of the string is to share it as that of a new one would */
        SvUTF8_off(value);
        sv_setpvn(value, text, length);
        return;
    }
    memcpy(SvPVX(value), text, length);
    SvPVX(value)[length] = '\0';
    SvCUR_set(value, length);
    SvPOK_only(value);
}

static void put_text(pTHX_ HV *env, struct hd_key *key, const char *text, STRLEN length) {
    if (key->entry)
        write_over(aTHX_ HeVAL(key->entry), text, length);
    else
        store(aTHX_ env, key, newSVpvn(text, length));
}

static void put_span(pTHX_ HV *env, struct hd_key *key, const Span *span) {
    STRLEN length;
    const char *text = hd_text(aTHX_ span, &length);
    put_text(aTHX_ env, key, text, length);
}

/* Takes the reference to `target`. */
static void put_reference(pTHX_ HV *env, struct hd_key *key, SV *target) {
    if (!key->entry) {
        store(aTHX_ env, key, newRV_noinc(target));
        return;
    }
    SV *value = HeVAL(key->entry);
    SvRV_set(value, target);
    SvROK_on(value);
}

static void put_constants(pTHX_ HV *env) {
    for (struct hd_key *key = constants; key < hd_keys + hd_fixed_keys; key++)
        if (!key->entry)
            store(aTHX_ env, key, newSVsv(key->constant));
}

/* One that not every request has. */
static void put_variable(pTHX_ HV *env, const char *name, STRLEN length, const char *text, STRLEN size) {
    struct hd_key *key = hd_key_named(aTHX_ name, length);
    if (key && key->kind == HD_TEXT) {
        key->serial = hd.now.serial;
        put_text(aTHX_ env, key, text, size);
        return;
    }
    SV *value = newSVpvn(text, size);
    if (!hv_store(env, name, length, value, 0))
        SvREFCNT_dec(value);
}

/* Those of the request before that this one does not have. */
static void delete_variables(pTHX_ HV *env) {
    for (struct hd_key *key = hd_keys + hd_fixed_keys; key < hd_keys + hd_key_count; key++)
        if (key->entry && key->serial != hd.now.serial) {
            hd_delete_entry(aTHX_ env, key->entry);
            key->entry = NULL;
        }
}

static void put_fields(pTHX_ HV *env) {
    U32 left;
    for (const FieldRecord *field = hd_fields(&left); left; left--, field++) {
        STRLEN length, size;
        const char *name = hd_text(aTHX_ &field->name, &length), *text = hd_text(aTHX_ &field->value, &size);
        put_variable(aTHX_ env, name, length, text, size);
    }
}

static void put_scheme(pTHX_ HV *env, bool secure) {
    put_text(aTHX_ env, scheme, "https", secure ? 5 : 4);
    if (secure)
        put_variable(aTHX_ env, STR_WITH_LEN("HTTPS"), "on", 2);
}

/* Makes the env of the present request. Nobody sees it before it is whole: it may have values of another request. */
void hd_build_env(pTHX_ const RequestRecord *request) {
    if (!hd.now.used)
        hd_damaged(aTHX);
    HV *env = hd_take_env(aTHX);
    put_constants(aTHX_ env);
    for (size_t i = 0; i < SPAN_COUNT; i++)
        put_span(aTHX_ env, &span_keys[i], (const Span *)((const char *)request + SPANS[i].at));
    put_text(aTHX_ env, script, "", 0);
    put_reference(aTHX_ env, input, hd_input(aTHX_ request));
    put_reference(aTHX_ env, socket_key, hd_lazy_socket(aTHX));
    if (!cleanup->entry)
        store(aTHX_ env, cleanup, newRV_noinc((SV *)newAV()));
    put_fields(aTHX_ env);
    put_scheme(aTHX_ env, HD_LOAD(request->flags) & REQUEST_HTTPS);
    delete_variables(aTHX_ env);
    hd.now.env = env;
}

/* psgix.cleanup.handlers, as the application has left it. */
SV *hd_cleanup_handlers(pTHX) { return hd_env_value(aTHX_ cleanup->name); }

/* psgix.harakiri.commit, if the application has set it. */
SV *hd_harakiri_commit(pTHX) { return hd_env_value(aTHX_ commit->name); }
