/*
 * What a CGI script leaves behind in the worker that ran it, for Howdah::CGI::Leftovers. What the kernel and perl know in a
 * few words is put back here; for what takes Perl code to restore, or cannot be, the caller is told that it is there.
 */
#include "script.h"

#include <fcntl.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#if PERL_VERSION < 28
#define Perl_setlocale setlocale /* threads share one locale there */
#endif

#define WINDOW 32

static struct {
    SV *handlers[SIG_SIZE];
    SV *warn, *die;
    sigset_t blocked;
    char *locale, *locale_name; /* as C knows it, and perl */
    locale_t own_locale;
    mode_t mask;
    struct pollfd window[WINDOW]; /* descriptors about the lowest one that is free */
    uint32_t open; /* which of them are open */
    int children; /* that scripts have left */
} base;

/* What perl, or code that is compiled, has by these names stays that, whatever a script deletes from the symbol table: perl has some of
 * them by a pointer alone, and scripts that were compiled before and after would mean different ones. */
static const char *const names[] = {"STDIN", "STDOUT", "STDERR", "ARGV", "ENV", "INC", "SIG", "_", "@"};
static GV *named[C_ARRAY_LENGTH(names)];

/* Before the first script is compiled. */
void hd_note_names(pTHX) {
    for (size_t at = 0; at < C_ARRAY_LENGTH(names); at++)
        if (!named[at])
            named[at] = (GV *)SvREFCNT_inc(gv_fetchpv(names[at], GV_ADD | GV_NOTQUAL, SVt_PV));
}

/* A script was compiled, or has ended. */
void hd_restore_names(pTHX) {
    for (size_t at = 0; at < C_ARRAY_LENGTH(names); at++) {
        SV **now = hv_fetch(PL_defstash, names[at], strlen(names[at]), false);
        if (!now || *now != (SV *)named[at])
            (void)hv_store(PL_defstash, names[at], strlen(names[at]), SvREFCNT_inc_simple_NN((SV *)named[at]), 0);
    }
}

static int lowest_free(void) {
    int fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    if (fd >= 0)
        close(fd);
    return fd;
}

/* One system call, of those that are not there poll(2) says so. The lowest alone would not tell of one above it that stays. */
static uint32_t open_in_window(void) {
    uint32_t open = 0;
    while (poll(base.window, WINDOW, 0) < 0 && errno == EINTR)
        ;
    for (int at = 0; at < WINDOW; at++)
        if (!(base.window[at].revents & POLLNVAL))
            open |= (uint32_t)1 << at;
    return open;
}

/* Descriptors that stay open. */
void hd_note_descriptors(void) {
    const int lowest = lowest_free(), before = WINDOW / 4;
    for (int at = 0; at < WINDOW; at++)
        base.window[at] = (struct pollfd){.fd = (lowest > 3 + before ? lowest - before : 3) + at};
    base.open = open_in_window();
}

/* What perl has is the element of %SIG, which stays the same with another value. */
static void note_handler(pTHX_ SV **noted, SV *now) {
    SvREFCNT_dec(*noted);
    *noted = now ? newSVsv(now) : NULL;
}

/* The handlers of the worker itself. */
void hd_note_handlers(pTHX) {
    for (int i = 0; i < SIG_SIZE; i++)
        note_handler(aTHX_ & base.handlers[i], PL_psig_ptr[i]);
    note_handler(aTHX_ & base.warn, PL_warnhook);
    note_handler(aTHX_ & base.die, PL_diehook);
    if (hd.cell) /* perl has put its own in the place of ours */
        hd_catch_again(aTHX);
}

/* A perl with threads gives its thread a locale of its own, which is another object once it is changed. */
static void note_locale(pTHX) {
    free(base.locale);
    free(base.locale_name);
    base.locale = strdup(setlocale(LC_ALL, NULL));
    base.locale_name = strdup(Perl_setlocale(LC_ALL, NULL));
    base.own_locale = uselocale((locale_t)0);
}

static void restore_locale(pTHX) {
    if (strEQ(setlocale(LC_ALL, NULL), base.locale) && uselocale((locale_t)0) == base.own_locale)
        return;
    Perl_setlocale(LC_ALL, base.locale_name);
    base.own_locale = uselocale((locale_t)0);
}

/* What the process is set to: in the zygote before it compiles scripts, and in each worker. */
void hd_note_settings(pTHX) {
    hd_note_handlers(aTHX);
    sigprocmask(SIG_SETMASK, NULL, &base.blocked);
    umask(base.mask = umask(0));
    note_locale(aTHX);
}

/* How it is before the first script that a worker runs. */
void hd_note_process(pTHX) {
    hd_count_forks();
    Perl_setlocale(LC_ALL, ""); /* as %ENV has it by now */
    hd_note_settings(aTHX);
    hd_note_descriptors();
    hd_begin_forks();
}

/* One that came while the script blocked it, and until its end, was for nobody else: now it would end the worker. */
static void discard_blocked(const sigset_t *blocked) {
    static const struct timespec at_once;
    sigset_t late;
    sigpending(&late);
    for (int number = 1; number < NSIG; number++)
        if (!sigismember(blocked, number) || sigismember(&base.blocked, number) || hd_is_for_worker(number))
            sigdelset(&late, number);
    while (sigtimedwait(&late, NULL, &at_once) > 0)
        ;
}

static void restore_blocked(void) {
    sigset_t blocked = {0};
    sigprocmask(SIG_SETMASK, NULL, &blocked);
    if (memcmp(&blocked, &base.blocked, sizeof blocked) == 0)
        return;
    discard_blocked(&blocked);
    sigprocmask(SIG_SETMASK, &base.blocked, NULL);
}

static void stop_timers(void) {
    const struct itimerval none = {0};
    setitimer(ITIMER_REAL, &none, NULL);
    setitimer(ITIMER_VIRTUAL, &none, NULL);
    setitimer(ITIMER_PROF, &none, NULL);
}

static bool is_same_handler(pTHX_ SV *before, SV *now) {
    if (!before || !now || !SvOK(before) || !SvOK(now))
        return (before && SvOK(before)) == (now && SvOK(now));
    if (SvROK(before) || SvROK(now))
        return SvROK(before) && SvROK(now) && SvRV(before) == SvRV(now);
    return sv_eq_flags(before, now, 0);
}

static bool are_handlers_changed(pTHX) {
    if (!is_same_handler(aTHX_ base.warn, PL_warnhook) || !is_same_handler(aTHX_ base.die, PL_diehook))
        return true;
    for (int i = 0; i < SIG_SIZE; i++)
        if (base.handlers[i] != PL_psig_ptr[i] && !is_same_handler(aTHX_ base.handlers[i], PL_psig_ptr[i])) /* mostly none, and none */
            return true;
    return false;
}

/* The script has ended. True when there are handlers of its own, which must not be called for what is none of it any more. */
bool hd_end_handlers(pTHX) {
    if (!are_handlers_changed(aTHX))
        return false;
    stop_timers();
    return true;
}

/* A script was compiled, or has ended. */
void hd_restore_settings(pTHX) {
    stop_timers();
    restore_blocked();
    umask(base.mask);
    restore_locale(aTHX);
    PL_srand_called = FALSE;
    PL_last_in_gv = NULL;
    SV *line = get_sv(".", 0); /* of no handle it has the value that was asked for last */
    if (line && !SvROK(line) && !SvREADONLY(line))
        SvOK_off(line);
}

/* Those that live. A kernel that does not list them (CONFIG_PROC_CHILDREN) leaves it at one. */
static int count_children(void) {
    if (!hd_has_children())
        return 0;
    FILE *list = fopen("/proc/thread-self/children", "r");
    int count = 0;
    while (list && fscanf(list, "%*d") != EOF)
        count++;
    if (list)
        fclose(list);
    return count ? count : 1;
}

/* The script has ended. True when there are more children than before. */
static bool has_left_children(void) {
    const int before = base.children;
    if (before || hd_has_forked())
        base.children = count_children();
    return base.children > before;
}

/* The script has ended. Says what is left to the caller, in bits of hd_left. */
UV hd_restore_process(pTHX) {
    hd_restore_settings(aTHX);
    return (are_handlers_changed(aTHX) ? LEFT_HANDLERS : 0) |
           (open_in_window() != base.open ? LEFT_DESCRIPTORS : 0) |
           (has_left_children() ? LEFT_CHILDREN : 0);
}

static bool is_standard(pTHX_ IO *io) {
    return io == GvIO(PL_stdingv) || io == GvIO(PL_stderrgv) || io == GvIO(gv_fetchpvs("STDOUT", GV_ADD, SVt_PVIO));
}

/* As `close` does, but for $?: who opens the handle anew counts lines and pages from the beginning. */
static void close_handle(pTHX_ GV *glob, IO *io) {
    do_close(glob, FALSE);
    IoLINES(io) = IoPAGE(io) = 0;
    IoLINES_LEFT(io) = IoPAGE_LEN(io);
}

/* Closes the handles that a script has opened under names of its package. All are written before, in perl's order: what the script has
 * printed comes before the last words of a program that such a handle leads to, and what stays open would come into another answer. */
void hd_close_handles(pTHX_ HV *stash) {
    HE *entry;
    PerlIO_flush((PerlIO *)NULL);
    hv_iterinit(stash);
    while ((entry = hv_iternext(stash))) {
        GV *glob = (GV *)HeVAL(entry);
        IO *io = isGV_with_GP(glob) ? GvIOp(glob) : NULL;
        if (io && IoIFP(io) && !is_standard(aTHX_ io))
            close_handle(aTHX_ glob, io);
        if (io && IoDIRP(io)) {
            PerlDir_close(IoDIRP(io));
            IoDIRP(io) = NULL;
        }
    }
}
