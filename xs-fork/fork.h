#ifndef HOWDAH_FORK_H
#define HOWDAH_FORK_H
/*
 * What the C files of a script's zygote share. fork.c is the frame: it is loaded before the script is compiled, and holds
 * perl once it has been. traces.c removes what loading it has left, fitness.c tells whether the script can be forked and
 * what its descriptors are, packet.c is the protocol, child.c makes a forked process that of a request, backtrace.c says
 * where such a process stands.
 *
 * None of this is in XS.so, so that the process of a script has in it what perl and the script have brought, and 40 KB.
 */
#define PERL_NO_GET_CONTEXT
#include "EXTERN.h"
#include "perl.h"
#include "XSUB.h"

#include "../xs/wire.h"

/* Descriptors that a script may have open once it is compiled. */
#define HF_MOST_DESCRIPTORS 256

/* A launch as it has arrived: text lies in a buffer that the next one overwrites. */
struct hf_launch {
    U32 arguments;
    U32 variables;
    char *text; /* arguments, then variables, each with a NUL behind it */
    int fds[SCRIPT_DESCRIPTORS];
};

/* A descriptor of the script's, and what it becomes in a process that is forked. */
struct hf_descriptor {
    int fd;
    int standard; /* 0 to 2: a copy of that one; -1: a file, opened anew */
    int flags;    /* as fcntl(F_GETFL) has them */
    bool close_on_exec;
    off_t position; /* -1 where there is none */
};

/* This zygote. */
struct hf_zygote {
    pid_t pid;
    int control;
    int life;   /* ends with the host, while the script is compiled */
    int output; /* what the script has printed while it was compiled */
    off_t printed;
    int count;
    struct hf_descriptor descriptors[HF_MOST_DESCRIPTORS];
};

extern struct hf_zygote hf;

/* packet.c */
bool hf_read_launch(struct hf_launch *launch, char *packet, size_t length, U32 descriptors);
void hf_write_report(struct iovec parts[2], const ScriptRecord *report, const char *text, size_t length);
int hf_receive(struct hf_launch *launch);
bool hf_report(ScriptReport kind, I32 value, const char *text, size_t length);

/* traces.c */
void hf_remove_traces(pTHX);

/* title.c */
void hf_keep_command_line(pTHX);
void hf_title_zygote(pTHX);
void hf_title_process(U32 arguments, const char *text);

/* environment.c */
void hf_remember_environment(pTHX);
void hf_compare_environment(pTHX);
void hf_set_environment(pTHX_ const struct hf_launch *launch, char *variables);

/* fitness.c */
void hf_open_standard(pTHX);
const char *hf_unfit(pTHX);

/* child.c */
int hf_open_again(const struct hf_descriptor *descriptor);
pid_t hf_fork(void);
void hf_begin(pTHX_ const struct hf_launch *launch);

/* backtrace.c */
void hf_watch_for_question(pTHX);

#endif
