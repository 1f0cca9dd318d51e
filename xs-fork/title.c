/*
 * What `ps` shows. The zygote names its script; the process of a request has the command line that it would have if it had
 * been executed: perl, the switches, the script, the words of an indexed query.
 */
#include "fork.h"

#include <sys/prctl.h>

#define LONGEST 4096

static struct {
    char *start; /* of the memory that the kernel shows */
    size_t size;
    char line[LONGEST]; /* of a process without words */
    size_t length;
} title;

/* What makes perl load this object. */
static bool is_ours(const char *argument) { return strnEQ(argument, "-M5;BEGIN{", 10); }

static void append(const char *text) {
    size_t length = strlen(text) + 1;
    if (title.length + length > sizeof title.line)
        return;
    memcpy(title.line + title.length, text, length);
    title.length += length;
}

/* Before anything writes there: the arguments lie behind one another. */
void hf_keep_command_line(pTHX) {
    title.start = PL_origargv[0];
    for (int at = 0; at < PL_origargc; at++) {
        title.size = PL_origargv[at] + strlen(PL_origargv[at]) + 1 - title.start;
        if (!is_ours(PL_origargv[at]))
            append(PL_origargv[at]);
    }
}

static void show(const char *text, size_t length) {
    size_t shown = length < title.size ? length : title.size - 1;
    memcpy(title.start, text, shown);
    memset(title.start + shown, 0, title.size - shown);
}

/* The kernel's name for a process that executes a script is the script's. */
static void name_process(const char *path) {
    const char *slash = strrchr(path, '/');
    prctl(PR_SET_NAME, slash ? slash + 1 : path, 0, 0, 0);
}

void hf_title_zygote(pTHX) {
    char text[LONGEST];
    int length = snprintf(text, sizeof text, "howdah: cgi zygote %s", PL_origfilename);
    name_process(PL_origfilename);
    show(text, length < (int)sizeof text ? (size_t)length : sizeof text - 1);
}

void hf_title_process(U32 arguments, const char *text) {
    for (; arguments; arguments--, text += strlen(text) + 1)
        append(text);
    show(title.line, title.length);
}
