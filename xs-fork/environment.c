/*
 * The environment of a process that is forked: that of its launch, changed as the script's BEGIN blocks have changed the
 * zygote's. So a script that sets PATH in such a block has its own in every request, as it has when it is executed.
 */
#include "fork.h"

#define MOST_VARIABLES 8192

static struct {
    char **before;       /* as perl found it */
    const char **set;    /* variables that BEGIN blocks have set, NAME=VALUE */
    const char **unset;  /* variables that they have removed, as they were */
    char *all[MOST_VARIABLES + 1];
} environment;

static size_t length_of(char *const *list) {
    size_t length = 0;
    while (list[length])
        length++;
    return length;
}

void hf_remember_environment(pTHX) {
    size_t length = length_of(environ);
    Newxz(environment.before, length + 1, char *);
    for (size_t at = 0; at < length; at++)
        environment.before[at] = savepv(environ[at]);
}

static size_t name_length(const char *variable) {
    const char *sign = strchr(variable, '=');
    return sign ? (size_t)(sign - variable) : strlen(variable);
}

static const char *find(const char *const *list, const char *variable) {
    size_t length = name_length(variable);
    for (; *list; list++)
        if (name_length(*list) == length && memEQ(*list, variable, length))
            return *list;
    return NULL;
}

/* The ones of `list` that `other` has not, or (`values`) has with another value. */
static const char **missing(pTHX_ char *const *list, char *const *other, bool values) {
    const char **found;
    size_t count = 0;
    Newxz(found, length_of(list) + 1, const char *);
    for (; *list; list++) {
        const char *there = find((const char *const *)other, *list);
        if (!there || (values && strNE(there, *list)))
            found[count++] = savepv(*list);
    }
    return found;
}

/* Once the script is compiled: %ENV is filled anew in each process. */
void hf_compare_environment(pTHX) {
    environment.set = missing(aTHX_ environ, environment.before, true);
    environment.unset = missing(aTHX_ environment.before, environ, false);
    hv_clear(GvHVn(PL_envgv));
}

/* As perl does when it starts; with -T the values are tainted. */
static void store(pTHX_ const char *variable) {
    size_t length = name_length(variable);
    if (!variable[length])
        return;
    SV *value = newSVpv(variable + length + 1, 0);
    if (!hv_store(GvHVn(PL_envgv), variable, length, value, 0))
        SvREFCNT_dec(value);
}

static bool is_decided(const char *variable) {
    return find(environment.set, variable) || find(environment.unset, variable);
}

/* perl copies what stands in PL_origenviron before it changes anything, so the strings may lie where they do. */
void hf_set_environment(pTHX_ const struct hf_launch *launch, char *variables) {
    size_t count = 0;
    for (U32 at = 0; at < launch->variables && count < MOST_VARIABLES; at++, variables += strlen(variables) + 1)
        if (!is_decided(variables))
            environment.all[count++] = variables;
    for (const char **at = environment.set; *at && count < MOST_VARIABLES; at++)
        environment.all[count++] = (char *)*at;
    environment.all[count] = NULL;
    environ = PL_origenviron = environment.all;
    TAINT;
    for (char **at = environ; *at; at++)
        store(aTHX_ *at);
    TAINT_NOT;
}
