/*
 * The standard input of a CGI script that runs in the worker, for Howdah::CGI::Handles: descriptor 0, so that programs
 * which the script starts read the body, too.
 *
 * It is a file in memory, which is empty for requests without a body and then costs nothing; a body that the front has
 * spooled is that file itself.
 */
#include "script.h"

#include <fcntl.h>
#include <unistd.h>

static struct {
    int fd; /* the file in memory */
    struct stat file;
    bool passed; /* descriptor 0 is the front's file */
    bool stale;  /* a child of an earlier script has the file, and may yet read it */
    STRLEN length;
} input = {.fd = -1};

static void open_file(pTHX) {
    input.fd = hd_new_file(aTHX_ "howdah-stdin", input.fd);
    input.length = 0;
    input.stale = input.passed = false;
    dup2(input.fd, STDIN_FILENO);
    if (fstat(input.fd, &input.file) != 0)
        croak("cannot look at standard input: %s", Strerror(errno));
}

bool hd_stdin_is_whole(pTHX) {
    IO *io = PL_stdingv && isGV_with_GP(PL_stdingv) ? GvIO(PL_stdingv) : NULL;
    PerlIO *fp = io && !SvRMAGICAL(io) ? IoIFP(io) : NULL;
    struct stat now;
    return PerlIOValid(fp) && PerlIOValid(PerlIONext(fp)) && !PerlIONext(PerlIONext(fp))[0] &&
           PerlIOBase(fp)->tab == &PerlIO_perlio && PerlIO_fileno(fp) == STDIN_FILENO &&
           !(PerlIOBase(fp)->flags & (PERLIO_F_UTF8 | PERLIO_F_CRLF)) && fstat(STDIN_FILENO, &now) == 0 &&
           (input.passed || (now.st_dev == input.file.st_dev && now.st_ino == input.file.st_ino));
}

/* Makes descriptor 0 ours; Howdah::CGI::Handles then opens STDIN on it. */
void hd_point_stdin(pTHX) { open_file(aTHX); }

/* Forgets what was read of the last body. */
static void rewind_handle(pTHX) {
    IO *io = GvIO(PL_stdingv);
    PerlIO *fp = io ? IoIFP(io) : NULL;
    if (!PerlIOValid(fp))
        return;
    PerlIO_seek(fp, 0, SEEK_SET);
    PerlIO_clearerr(fp);
    IoLINES(io) = 0;
    IoFLAGS(io) &= ~IOf_NOLINE; /* perl's, once it has read an empty file at one go */
}

static void put(pTHX_ const char *bytes, STRLEN length) {
    if (input.length && ftruncate(input.fd, 0) != 0)
        croak("cannot empty standard input: %s", Strerror(errno));
    input.length = length;
    for (off_t at = 0; length;) {
        ssize_t written = pwrite(input.fd, bytes + at, length, at);
        if (written < 0)
            croak("cannot write standard input: %s", Strerror(errno));
        at += written;
        length -= written;
    }
}

/* The body of the request. */
void hd_set_stdin(pTHX_ SV *bytes) {
    STRLEN length;
    const char *body = SvPVbyte(bytes, length);
    input.stale |= hd_has_forked();
    hd_begin_forks();
    if (input.fd < 0 || input.passed || (input.stale && (length || input.length)))
        open_file(aTHX);
    if (length || input.length)
        put(aTHX_ body, length);
    rewind_handle(aTHX);
}

/* The body is in a file. */
void hd_pass_stdin(pTHX_ int fd) {
    hd_begin_forks();
    dup2(fd, STDIN_FILENO);
    input.passed = true;
    rewind_handle(aTHX);
}
