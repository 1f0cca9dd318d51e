#ifndef HOWDAH_SCRIPT_H
#define HOWDAH_SCRIPT_H
/*
 * What the C files share that run CGI scripts inside a worker, for Howdah::CGI::Keep: version.c knows its file, script.c calls it and
 * ends it, variables.c has its variables, output.c its standard output, stdin.c its standard input, leftovers.c what it leaves behind.
 */
#include "howdah.h"
#include "perliol.h"

#include <sys/stat.h>

/* script.c */
void hd_prepare_scripts(pTHX);
enum hd_end { ENDED_BY_DEATH, ENDED_BY_EXIT, ENDED_BY_EXEC, ENDED_BY_ITSELF };
enum hd_end hd_run_script(pTHX_ SV *code, bool interruptible, bool again);
AV *hd_take_ends(pTHX_ const char *file, const char *package);
bool hd_is_thread(void);
bool hd_script_runs(void);
void hd_enter_script(pTHX);
void hd_end_script(pTHX) __attribute__((noreturn));

/* output.c */
void hd_begin_page(pTHX);
void hd_catch_output(pTHX);
SV *hd_caught_output(pTHX);
void hd_begin_output(pTHX_ SV *answer, SV *first);
SV *hd_end_output(pTHX);
bool hd_output_is_whole(pTHX);
void hd_point_output(pTHX);
void hd_adopt_output(pTHX);
bool hd_renew_output(pTHX);
bool hd_is_plain(IO *io, int fd, const PerlIO_funcs *lowest, const struct stat *file);
int hd_new_file(pTHX_ const char *name, int instead);

/* variables.c */
HV *hd_request_variables(pTHX_ HV *fixed, HV *env, HV *hidden, HV *wanted);
IV hd_count_variables(pTHX);
void hd_set_variables(pTHX_ HV *wanted);
AV *hd_set_values(pTHX_ AV *pairs);

/* version.c */
SV *hd_file_version(pTHX_ const char *name);

/* stdin.c */
void hd_set_stdin(pTHX_ SV *bytes);
void hd_pass_stdin(pTHX_ int fd);
bool hd_stdin_is_whole(pTHX);
void hd_point_stdin(pTHX);

/* forks.c */
void hd_count_forks(void);
void hd_begin_forks(void);
bool hd_has_forked(void);
void hd_count_thread(void);
bool hd_has_threads(void);

/* leftovers.c */
enum hd_left { LEFT_HANDLERS = 1, LEFT_DESCRIPTORS = 2, LEFT_CHILDREN = 4 };
void hd_note_settings(pTHX);
void hd_restore_settings(pTHX);
void hd_note_process(pTHX);
void hd_note_handlers(pTHX);
bool hd_end_handlers(pTHX);
UV hd_restore_process(pTHX);
void hd_note_names(pTHX);
void hd_restore_names(pTHX);
void hd_close_handles(pTHX_ HV *stash);
void hd_note_descriptors(void);

#endif
