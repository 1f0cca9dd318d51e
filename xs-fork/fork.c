/*
 * A perl that compiles a script as its main program becomes the script's zygote: before the first line of the script is
 * compiled `howdah_fork_load` is called, by lib/Howdah/CGI/Fork.pm; it adds a block to those of the name INIT, which
 * perl calls once the whole program is compiled. There the process stays. For each request it forks, and the child returns
 * from that block, so that perl runs the program, once, unaltered.
 */
#include "fork.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

/* High enough to be in nobody's way, low enough for the table of descriptors that each process has from the start. */
#define CONTROL_FD 60

struct hf_zygote hf;

/* The files that the script has loaded, as paths that do not depend on the directory. */
static SV *loaded_files(pTHX) {
    HV *loaded = GvHVn(PL_incgv);
    SV *list = newSVpvs(""), *value;
    char directory[4096], *key;
    I32 length;
    if (!getcwd(directory, sizeof directory))
        *directory = 0;
    hv_iterinit(loaded);
    while ((value = hv_iternextsv(loaded, &key, &length)))
        if (SvPOK(value)) {
            if (*SvPVX(value) != '/')
                sv_catpvf(list, "%s/", directory);
            sv_catpvn(list, SvPVX(value), SvCUR(value));
            sv_catpvn(list, "", 1);
        }
    return list;
}

static void report_files(pTHX_ ScriptReport kind) {
    SV *files = loaded_files(aTHX);
    hf_report(kind, 0, SvPVX(files), SvCUR(files));
    SvREFCNT_dec(files);
}

/* There is nothing to flush or to destroy: what the script has opened is each process's own to end. */
__attribute__((noreturn)) static void leave(void) { _exit(0); }

static void leave_unfit(const char *why) {
    hf_report(SCRIPT_REPORT_UNFIT, 0, why, strlen(why));
    leave();
}

#define ENDS "it ends while it is compiled"

/* perl ends before the script was compiled. One that has printed an answer meanwhile gives it when it is executed. */
static void ended(pTHX_ void *unused) {
    PERL_UNUSED_VAR(unused);
    if (getpid() != hf.pid)
        return;
    PerlIO_flush(PerlIO_stdout());
    if (lseek(hf.output, 0, SEEK_END) > 0 || STATUS_EXIT == 0)
        leave_unfit(ENDS);
    report_files(aTHX_ SCRIPT_REPORT_FAILED);
}

static void refuse(int error) { hf_report(SCRIPT_REPORT_REFUSED, error, "", 0); }

/*
 * True in a child. That reports itself: were it the zygote's to do, one that is killed in that instant would leave a
 * process of which the host knows nothing.
 */
static bool fork_for(pTHX_ const struct hf_launch *launch) {
    pid_t pid = hf_fork();
    if (pid == 0) {
        hf_report(SCRIPT_REPORT_FORKED, getpid(), "", 0);
        hf_begin(aTHX_ launch);
        return true;
    }
    if (pid < 0)
        refuse(errno);
    for (int number = 0; number < SCRIPT_DESCRIPTORS; number++)
        close(launch->fds[number]);
    return false;
}

/* Standard input is the socket, until the script is compiled. */
static void take_control(pTHX) {
    hf.control = fcntl(0, F_DUPFD_CLOEXEC, CONTROL_FD);
    if (hf.control < 0)
        croak("standard input is no socket to the host of CGI scripts: %s", strerror(errno));
}

/*
 * Standard output is a pipe into which nobody writes. It ends with the host, and then a perl that still compiles, perhaps
 * for ever, is killed: nobody else would end it.
 */
static void die_with_host(void) {
    hf.life = fcntl(1, F_DUPFD_CLOEXEC, CONTROL_FD);
    fcntl(hf.life, F_SETOWN, hf.pid);
    fcntl(hf.life, F_SETSIG, SIGKILL);
    fcntl(hf.life, F_SETFL, O_ASYNC);
}

/* From now on it reads the socket, and sees the host's end there. */
static void outlive_host(void) {
    fcntl(hf.life, F_SETFL, 0);
    close(hf.life);
    hf.life = -1;
}

/*
 * Perl keeps each key and name once, in one table, and splits that when it is full: which writes to all entries, so that a
 * child copies every page that has one. With room for a third more, no child has to.
 */
static void make_room_for_names(pTHX) { hv_ksplit(PL_strtab, 2 * HvTOTALKEYS(PL_strtab)); }

/* The block: returns in a child only. */
XS(hold);
XS(hold) {
    dXSARGS;
    PERL_UNUSED_VAR(items);
    struct hf_launch launch;
    int error = errno; /* $! */
    if (getpid() != hf.pid)
        leave(); /* a block has forked, for which the other process is unfit */
    outlive_host();
    const char *unfit = PL_main_root ? hf_unfit(aTHX) : ENDS; /* a block has called exit(0) */
    if (unfit)
        leave_unfit(unfit);
    hf_title_zygote(aTHX);
    make_room_for_names(aTHX);
    report_files(aTHX_ SCRIPT_REPORT_READY);
    hf_compare_environment(aTHX);
    for (;;) {
        int received = hf_receive(&launch);
        if (received < 0)
            leave();
        if (received == 0)
            refuse(EBADMSG);
        else if (fork_for(aTHX_ & launch))
            break;
    }
    errno = error;
    XSRETURN_EMPTY;
}

/* A block without a name, before any that the script has. */
static void add_block(pTHX) {
    CV *block = (CV *)newSV_type(SVt_PVCV);
    CvISXSUB_on(block);
    CvANON_on(block);
    CvXSUB(block) = hold;
    Perl_av_create_and_push(aTHX_ & PL_initav, (SV *)block);
}

XS_EXTERNAL(howdah_fork_load);
XS_EXTERNAL(howdah_fork_load) {
#ifdef dXSBOOTARGSAPIVERCHK
    dXSBOOTARGSAPIVERCHK;
#else
    dXSARGS;
    XS_APIVERSION_BOOTCHECK;
#endif
    PERL_UNUSED_VAR(items);
    hf.pid = getpid();
    take_control(aTHX);
    die_with_host();
    hf_open_standard(aTHX);
    hf_remember_environment(aTHX);
    hf_keep_command_line(aTHX);
    hf_remove_traces(aTHX);
    add_block(aTHX);
    call_atexit(ended, NULL);
    hf_watch_for_question(aTHX);
    hf_report(SCRIPT_REPORT_LOADED, 0, "", 0);
    errno = 0; /* as a perl has it that has loaded nothing yet */
    XSRETURN_EMPTY;
}

/* For the tests of the protocol alone, which look them up by name. */
XS_EXTERNAL(howdah_fork_read_launch);
XS_EXTERNAL(howdah_fork_read_launch) {
    dXSARGS;
    struct hf_launch launch;
    STRLEN length;
    if (items != 2)
        croak("a packet and the number of its descriptors");
    char *packet = SvPVbyte(ST(0), length);
    if (!hf_read_launch(&launch, packet, length, SvUV(ST(1))))
        XSRETURN_EMPTY;
    ST(0) = sv_2mortal(newSVuv(launch.arguments));
    ST(1) = sv_2mortal(newSVpvn(launch.text, packet + length - launch.text));
    XSRETURN(2);
}

XS_EXTERNAL(howdah_fork_write_report);
XS_EXTERNAL(howdah_fork_write_report) {
    dXSARGS;
    struct iovec parts[2];
    STRLEN length;
    if (items != 3)
        croak("kind, value and text of a report");
    const ScriptRecord record = {.kind = SvUV(ST(0)), .value = SvIV(ST(1))};
    const char *text = SvPVbyte(ST(2), length);
    hf_write_report(parts, &record, text, length);
    SV *packet = newSVpvn(parts[0].iov_base, parts[0].iov_len);
    sv_catpvn(packet, parts[1].iov_base, parts[1].iov_len);
    ST(0) = sv_2mortal(packet);
    XSRETURN(1);
}
