/*
 * The standard output of a CGI script that runs in the worker, for Howdah::CGI::Output.
 *
 * Below the buffer of STDOUT lies a layer, as in errors.c, which gives what is printed to the response without a system
 * call. Descriptor 1 is a file in memory: what programs that the script starts, and C code, write there is taken from it
 * in its turn, before what STDOUT writes next and at the end. For a request in which nobody writes there this costs
 * one look at the file's length.
 */
#include "script.h"
#include "perliol.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

/* More than this is not held back. Most pages are less, so that their length is known before they are sent. */
#define MOST (64 * 1024)
/* What has been taken from the file is given back to the kernel from here on. */
#define LARGE (1 << 20)

static struct {
    PerlIO_funcs layer;
    IO *handle;  /* the one that was STDOUT first */
    int fd;      /* the file behind descriptor 1 */
    struct stat file;
    off_t taken; /* bytes of it */
    SV *held;
    SV *answer; /* takes what is held when that must go; NULL when there is no script */
    bool flowing, dropping;
} output = {.fd = -1};

/* While a script is compiled. */
static struct {
    int fd;     /* behind descriptor 1 */
    int before; /* what that was; -1 for nothing */
} caught;

/* $| of STDOUT, whichever handle is selected. */
static bool is_unbuffered(void) { return output.handle && IoFLAGS(output.handle) & IOf_FLUSH; }

static void leave_signals(pTHX) {}

static void take_signals(pTHX_ void *hook) { PL_signalhook = (despatch_signals_proc_t)hook; }

/* Until the end of the present scope the script's handlers of signals wait: one that dies would leave half of what is being
 * given, and its death would look like that of the response. */
static void hold_signals(pTHX) {
    SAVEDESTRUCTOR_X(take_signals, (void *)PL_signalhook);
    PL_signalhook = leave_signals;
}

/* The answer says how to go on: 1 for more of it, 0 for no more output, -1 for the script's end. */
static IV call_answer(pTHX) {
    dSP;
    ENTER;
    SAVETMPS;
    hold_signals(aTHX);
    PUSHSTACKi(PERLSI_MAGIC);
    PUSHMARK(SP);
    XPUSHs(output.answer);
    XPUSHs(output.held);
    PUTBACK;
    call_method("take", G_SCALAR);
    SPAGAIN;
    IV go = POPi;
    PUTBACK;
    POPSTACK;
    FREETMPS;
    LEAVE;
    return go;
}

static void give(pTHX) {
    if (!SvCUR(output.held))
        return;
    IV go = output.dropping ? 0 : call_answer(aTHX);
    SvCUR_set(output.held, 0);
    output.flowing = true;
    output.dropping = go <= 0;
    if (go < 0 && hd_script_runs())
        hd_end_script(aTHX);
}

static void give_what_must_go(pTHX) {
    if (SvCUR(output.held) > MOST || output.flowing || is_unbuffered())
        give(aTHX);
}

static bool leads_to_file(int fd, struct stat *now) {
    return fstat(fd, now) == 0 && now->st_dev == output.file.st_dev && now->st_ino == output.file.st_ino;
}

static void take_until(pTHX_ off_t end) {
    while (output.taken < end) {
        char piece[16384];
        ssize_t got = pread(output.fd, piece, sizeof piece, output.taken);
        if (got <= 0)
            break;
        output.taken += got;
        sv_catpvn(output.held, piece, got);
        give_what_must_go(aTHX);
    }
    if (lseek(output.fd, 0, SEEK_CUR) < output.taken) /* somebody has opened /dev/stdout, and written there */
        lseek(output.fd, output.taken, SEEK_SET);
    if (output.taken > LARGE)
        fallocate(output.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, output.taken & -4096);
}

static void take_file(pTHX) {
    struct stat now;
    if (leads_to_file(output.fd, &now))
        take_until(aTHX_ now.st_size);
}

/* By `open STDOUT, ...` without a close before, perl puts a file or a program in the place of descriptor 1 and keeps the handle with
 * its layers. Children, too, write into the file, as any program does. */
static SSize_t layer_write(pTHX_ PerlIO *f, const void *bytes, Size_t count) {
    struct stat now;
    if (!hd.cell || !output.answer || hd_is_thread() || !leads_to_file(PerlIO_fileno(f), &now))
        return PerlIO_unix.Write(aTHX_ f, bytes, count);
    dSAVE_ERRNO;
    take_until(aTHX_ now.st_size);
    sv_catpvn(output.held, (const char *)bytes, count);
    give_what_must_go(aTHX);
    RESTORE_ERRNO;
    return count;
}

/* What is printed to the response has no position to go back to, as in a pipe: who asks by that whether it can correct what it has
 * written, as Archive::Zip does, must not be told that it can. */
static IV layer_seek(pTHX_ PerlIO *f, Off_t offset, int whence) {
    struct stat now;
    if (!leads_to_file(PerlIO_fileno(f), &now))
        return PerlIO_unix.Seek(aTHX_ f, offset, whence);
    errno = ESPIPE;
    return -1;
}

/* Bytes from `fd` are this handle's, by perl's buffer and the one layer below it, and nothing between. */
bool hd_is_plain(IO *io, int fd, const PerlIO_funcs *lowest, const struct stat *file) {
    struct stat now;
    PerlIO *fp = io && !SvRMAGICAL(io) ? IoIFP(io) : NULL;
    return PerlIOValid(fp) && IoOFP(io) == fp && PerlIOValid(PerlIONext(fp)) && !PerlIONext(PerlIONext(fp))[0] &&
           PerlIOBase(fp)->tab == &PerlIO_perlio && !(PerlIOBase(fp)->flags & (PERLIO_F_UTF8 | PERLIO_F_CRLF)) &&
           PerlIOBase(PerlIONext(fp))->tab == lowest && fstat(fd, &now) == 0 && now.st_ino == file->st_ino &&
           now.st_dev == file->st_dev;
}

static IO *handle_of(pTHX_ const char *name) {
    GV *glob = gv_fetchpv(name, GV_ADD | GV_NOTQUAL, SVt_PVIO);
    return glob && isGV_with_GP(glob) ? GvIO(glob) : NULL;
}

/* Whether STDOUT and descriptor 1 are what they were at the start. */
bool hd_output_is_whole(pTHX) {
    IO *io = handle_of(aTHX_ "STDOUT");
    return io && io == output.handle && hd_is_plain(io, STDOUT_FILENO, &output.layer, &output.file);
}

/* An empty file in memory, open under a number that programs do not inherit; takes that of `instead`, if it is one. */
int hd_new_file(pTHX_ const char *name, int instead) {
    int made = memfd_create(name, MFD_CLOEXEC);
    int fd = made < 0 || instead >= 0 ? dup3(made, instead, O_CLOEXEC) : fcntl(made, F_DUPFD_CLOEXEC, 3);
    int error = errno;
    close(made);
    if (fd < 0)
        croak("cannot make a file in memory: %s", Strerror(error));
    return fd;
}

/* Programs can seek in it, and some do where they can, as zip to correct a header: so it is not one to which all is appended. */
static void open_file(pTHX) {
    output.fd = hd_new_file(aTHX_ "howdah-stdout", output.fd);
    output.taken = 0;
    if (fstat(output.fd, &output.file) != 0)
        croak("cannot look at standard output: %s", Strerror(errno));
}

/* Makes descriptor 1 what the script's programs write to; Howdah::CGI::Handles then opens STDOUT on it. */
void hd_point_output(pTHX) {
    if (output.fd < 0)
        open_file(aTHX);
    dup2(output.fd, STDOUT_FILENO);
}

/* STDOUT was opened anew on descriptor 1. */
void hd_adopt_output(pTHX) {
    output.handle = handle_of(aTHX_ "STDOUT");
    PerlIO *lowest = output.handle ? IoOFP(output.handle) : NULL;
    while (PerlIOValid(lowest) && PerlIOValid(PerlIONext(lowest)))
        lowest = PerlIONext(lowest);
    if (!PerlIOValid(lowest) || PerlIOBase(lowest)->tab != &PerlIO_unix)
        croak("cannot make standard output that of the script");
    output.layer = PerlIO_unix;
    output.layer.Write = layer_write;
    output.layer.Seek = layer_seek;
    PerlIOBase(lowest)->tab = &output.layer;
}

/* Formats of STDOUT are those that its names lead to from the script, which may have none for the top of a page. */
void hd_begin_page(pTHX) {
    IO *io = handle_of(aTHX_ "STDOUT");
    if (!io)
        return;
    Safefree(IoFMT_NAME(io));
    Safefree(IoTOP_NAME(io));
    IoFMT_NAME(io) = IoTOP_NAME(io) = NULL;
    IoFMT_GV(io) = IoTOP_GV(io) = NULL;
    IoPAGE_LEN(io) = 60;
    IoPAGE(io) = IoLINES_LEFT(io) = 0;
}

/* While a script is compiled descriptor 1 is a file of its own: what is printed then is none of the process's. */
void hd_catch_output(pTHX) {
    PERL_FLUSHALL_FOR_CHILD;
    caught.before = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    caught.fd = hd_new_file(aTHX_ "howdah-compiled", -1);
    dup2(caught.fd, STDOUT_FILENO);
}

/* The script was compiled: what it has printed. */
SV *hd_caught_output(pTHX) {
    SV *bytes = newSVpvs("");
    struct stat now;
    PERL_FLUSHALL_FOR_CHILD;
    if (fstat(caught.fd, &now) == 0 && now.st_size > 0) {
        char *start = SvGROW(bytes, (STRLEN)now.st_size + 1);
        ssize_t got = pread(caught.fd, start, now.st_size, 0);
        SvCUR_set(bytes, got > 0 ? got : 0);
        *SvEND(bytes) = '\0';
    }
    if (caught.before < 0)
        close(STDOUT_FILENO);
    else
        dup2(caught.before, STDOUT_FILENO);
    close(caught.before);
    close(caught.fd);
    return bytes;
}

/* The script begins, as if it had printed `first`: the answer will be given what it prints when that is more than is held, or must not
 * wait. */
void hd_begin_output(pTHX_ SV *answer, SV *first) {
    if (!output.held)
        output.held = newSVpvs("");
    SvCUR_set(output.held, 0);
    sv_catsv(output.held, first);
    SvREFCNT_dec(output.answer); /* of a request that failed before its script began */
    output.answer = newSVsv(answer);
    output.flowing = output.dropping = false;
    PerlIO *fp = output.handle ? IoOFP(output.handle) : NULL;
    if (!PerlIOValid(fp))
        return;
    PerlIO_clearerr(fp);                 /* as of a script that has asked for eof(STDOUT): with it, print ends after its first item */
    PerlIOSelf(fp, PerlIOBuf)->posn = 0; /* what tell begins with, from which CGI::Carp knows of a header */
}

/* The script has ended: what is still held. */
SV *hd_end_output(pTHX) {
    PerlIO *fp = output.handle ? IoOFP(output.handle) : NULL;
    if (PerlIOValid(fp))
        PerlIO_flush(fp);
    fflush(stdout);
    take_file(aTHX);
    SvREFCNT_dec(output.answer);
    output.answer = NULL;
    SV *rest = output.dropping ? newSVpvs("") : output.held;
    if (rest == output.held)
        output.held = NULL;
    else
        SvCUR_set(output.held, 0);
    return rest;
}

/* Behind the response: the next one begins with an empty file, which no child of this script's has. False when the script has closed
 * what is not its own, whose number may be another file's by now. */
bool hd_renew_output(pTHX) {
    struct stat now;
    if (!leads_to_file(output.fd, &now))
        return false;
    if (hd_has_forked()) {
        open_file(aTHX);
        dup2(output.fd, STDOUT_FILENO);
    } else if (output.taken && ftruncate(output.fd, 0) == 0)
        output.taken = lseek(output.fd, 0, SEEK_SET);
    return true;
}
