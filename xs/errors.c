/*
 * What Perl writes to STDERR, with who writes it: warnings, psgi.errors, and the messages of exchange.c. zygote.c opens it
 * when the zygote attaches; the front's crates/howdah/src/log reads it.
 *
 * Standard error is a pipe to the front. Below the buffer of Perl's handle lies a layer that writes to the descriptor;
 * here that layer puts process, worker and request before the bytes. It costs nothing until something is written, and
 * what is written is in the pipe at once, whatever becomes of this process. Libraries in C and programs that the
 * application runs write to the descriptor as it is; the front knows their lines by the lack of the mark, in which
 * there is a secret.
 */
#include "howdah.h"
#include "perliol.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#define LONGEST_TARGET 512
#define LONGEST_WORD 128
#define SEPARATOR "\x1f"

static struct {
    PerlIO_funcs layer;
    char mark[40];
    struct stat pipe;
    int worker; /* -1 in the zygote */
    GV *glob;   /* the handle */
    int kept;   /* a copy of the pipe's descriptor; -1 when nobody has needed it */
    const char *level; /* NULL but for messages of exchange.c */
} errors = {.worker = -1, .kept = -1};

/* A word of the header: what could end it, or a terminal's peace, is left out. */
static char *put_word(char *at, const char *bytes, size_t length, size_t longest) {
    for (size_t i = 0; i < length && i < longest; i++)
        *at++ = (U8)bytes[i] < 0x20 || bytes[i] == 0x7f ? '?' : bytes[i];
    return at;
}

static char *put_text(char *at, const char *text) { return put_word(at, text, strlen(text), LONGEST_WORD); }

/* Without sprintf, since a handler of a signal comes here, too. */
static char *put_number(char *at, UV number) {
    if (number >= 10)
        at = put_number(at, number / 10);
    *at++ = '0' + number % 10;
    return at;
}

static char *separate(char *at) {
    *at++ = SEPARATOR[0];
    return at;
}

static char *put_span(char *at, const Span *span, size_t longest) {
    STRLEN length;
    const char *text = span ? hd_find_text(span, &length) : NULL;
    return text ? put_word(at, text, length, longest) : at;
}

static char *put_variable(pTHX_ char *at, const char *name, size_t longest) {
    const SV *value = hd_env_named(aTHX_ name);
    return value && SvPOK(value) ? put_word(at, SvPVX_const(value), SvCUR(value), longest) : at;
}

/* Request id, method and target, from the slot. */
static char *put_slot(char *at) {
    const RequestRecord *request = hd.now.request;
    at = separate(put_span(at, hd_field(STR_WITH_LEN("HTTP_X_REQUEST_ID")), LONGEST_WORD));
    at = separate(put_span(at, &request->method, LONGEST_WORD));
    return separate(put_span(at, &request->uri, LONGEST_TARGET));
}

/* The same, once the slot is the front's again. */
static char *put_env(pTHX_ char *at) {
    at = separate(put_variable(aTHX_ at, "HTTP_X_REQUEST_ID", LONGEST_WORD));
    at = separate(put_variable(aTHX_ at, "REQUEST_METHOD", LONGEST_WORD));
    return separate(put_variable(aTHX_ at, "REQUEST_URI", LONGEST_TARGET));
}

static char *put_no_request(char *at) { return separate(separate(separate(at))); }

static bool has_slot(void) { return hd.cell && hd.now.progress != HD_FINISHED; }

static char *put_request(pTHX_ char *at) {
    if (has_slot())
        return put_slot(at);
    return hd.cell && hd.now.env ? put_env(aTHX_ at) : put_no_request(at);
}

/* What the application prints is news, perhaps a log of its own; what comes of `warn`, or of perl itself, is a warning. */
static const char *level_now(pTHX) {
    if (errors.level)
        return errors.level;
    switch (PL_op ? PL_op->op_type : OP_NULL) {
    case OP_PRINT:
    case OP_SAY:
    case OP_PRTF:
        return "info";
    default:
        return "warn";
    }
}

static char *put_writer(char *at, const char *level) {
    at = (char *)memcpy(at, errors.mark, strlen(errors.mark)) + strlen(errors.mark);
    at = separate(put_text(at, level));
    at = separate(put_number(at, getpid()));
    at = errors.worker < 0 ? put_text(at, "-") : put_number(at, errors.worker);
    return separate(at);
}

/* The application may have put something else in the place of standard error, with the same handle. */
static bool is_still_ours(int fd) {
    struct stat now;
    return fstat(fd, &now) == 0 && now.st_dev == errors.pipe.st_dev && now.st_ino == errors.pipe.st_ino;
}

static bool write_whole(int fd, const char *bytes, size_t length) {
    ssize_t written;
    do
        written = write(fd, bytes, length);
    while (written < 0 && errno == EINTR);
    return written >= 0;
}

/* Whether there is room in the pipe, which is waited for. A program that the application runs may have made it non-blocking,
 * as ssh does, and that holds for all who write there. */
static bool has_room(int fd) {
    struct pollfd pipe = {.fd = fd, .events = POLLOUT};
    return errno == EAGAIN && (poll(&pipe, 1, -1) > 0 || errno == EINTR);
}

/* As to a pipe that is blocking. */
static bool write_packet(int fd, const char *packet, size_t length) {
    int before = errno;
    while (!write_whole(fd, packet, length))
        if (!has_room(fd))
            return false;
    errno = before;
    return true;
}

/* What follows the header, which ends at `header`; false when it could not be written. */
static bool write_packets(int fd, char packet[PIPE_BUF], char *header, const char *from, size_t count) {
    while (count) {
        size_t most = packet + PIPE_BUF - header - 8, length = count < most ? count : most;
        char *at = put_number(header, length);
        *at++ = '\n';
        memcpy(at, from, length);
        if (!write_packet(fd, packet, at + length - packet))
            return false;
        from += length;
        count -= length;
    }
    return true;
}

/* A pipe takes up to PIPE_BUF bytes as a whole, so no two processes' records mix. */
static SSize_t write_records(pTHX_ PerlIO *f, const void *bytes, Size_t count) {
    char packet[PIPE_BUF];
    int fd = PerlIO_fileno(f);
    if (!is_still_ours(fd))
        return PerlIO_unix.Write(aTHX_ f, bytes, count);
    char *header = put_request(aTHX_ put_writer(packet, level_now(aTHX)));
    return write_packets(fd, packet, header, bytes, count) ? (SSize_t)count : -1;
}

static PerlIO *lowest_layer(PerlIO *handle) {
    while (PerlIOValid(PerlIONext(handle)))
        handle = PerlIONext(handle);
    return handle;
}

/* An application that closes its standard error does not mean the messages about it. */
static IV keep_and_close(pTHX_ PerlIO *f) {
    int fd = PerlIO_fileno(f);
    if (errors.kept < 0 && is_still_ours(fd))
        errors.kept = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    return PerlIO_unix.Close(aTHX_ f);
}

/* Descriptor 2 may be anything by now, even a socket, if the application has closed the handle. */
static bool is_open(void) {
    IO *io = errors.glob && isGV_with_GP(errors.glob) ? GvIOp(errors.glob) : NULL;
    return io && IoOFP(io);
}

/* The same for the handle that perl takes when there is none: the next file that is opened may be that. */
static bool is_lost(PerlIO *handle) {
    return !is_open() && (!PerlIOValid(handle) || PerlIOBase(lowest_layer(handle))->tab != &errors.layer);
}

/* Where the pipe is that the handle leads to, or led to before the application has closed it or taken its layers away. -1 where it has
 * put something else there. */
static int find_pipe(pTHX_ PerlIO *log) {
    if (errors.kept >= 0 && is_lost(log))
        return errors.kept;
    PerlIO *lowest = PerlIOValid(log) ? lowest_layer(log) : NULL;
    if (lowest && PerlIOBase(lowest)->tab != &errors.layer)
        return -1;
    int fd = lowest ? PerlIO_fileno(lowest) : STDERR_FILENO;
    return errors.mark[0] && is_still_ours(fd) ? fd : -1;
}

/* A message of Howdah's about the present request, of this level. It is no part of a file that has come to stand where the application
 * has closed standard error, and goes past layers that the application has put on it: an encoding may die of what was written before. */
void hd_put_message(pTHX_ const char *message, size_t length, const char *level) {
    char packet[PIPE_BUF];
    PerlIO *log = Perl_error_log;
    int pipe = find_pipe(aTHX_ log);
    if (pipe >= 0) {
        write_packets(pipe, packet, put_request(aTHX_ put_writer(packet, level)), message, length);
        return;
    }
    errors.level = level;
    PerlIO_write(log, message, length);
    PerlIO_flush(log);
    errors.level = NULL;
}

/* From a handler of a signal, so that what perl may be changing is not read: a request is named while it has its slot. */
void hd_write_errors(const char *bytes, size_t count) {
    static char packet[PIPE_BUF];
    if (!is_open())
        return;
    if (!is_still_ours(STDERR_FILENO)) {
        write_whole(STDERR_FILENO, bytes, count);
        return;
    }
    char *header = put_writer(packet, "info");
    header = has_slot() ? put_slot(header) : put_no_request(header);
    write_packets(STDERR_FILENO, packet, header, bytes, count);
}

/* The handle is known to hd_write_errors from now on, in whatever process. */
void hd_know_errors(pTHX) { errors.glob = PL_stderrgv; }

/* What Perl writes to its standard error bears the mark from now on. */
void hd_adopt_errors(pTHX) {
    PerlIO *handle = PerlIOValid(Perl_error_log) ? lowest_layer(Perl_error_log) : NULL;
    if (!errors.mark[0] || !handle || PerlIOBase(handle)->tab != &PerlIO_unix)
        return;
    errors.layer = PerlIO_unix;
    errors.layer.Write = write_records;
    errors.layer.Close = keep_and_close;
    PerlIOBase(handle)->tab = &errors.layer;
}

#define STUCK                                                                                                              \
    "standard error had a layer that died of a character, as an encoding with fatal checks does, and kept all that came "  \
    "later: it is taken away\n"

/* Perl neither empties such a layer nor calls it again: what it has is written as it is. */
static void take_stuck_layer(pTHX_ PerlIO *handle) {
    char packet[PIPE_BUF];
    const PerlIOBuf *stuck = PerlIOSelf(handle, PerlIOBuf);
    char *header = put_request(aTHX_ put_writer(packet, "warn"));
    write_packets(PerlIO_fileno(handle), packet, header, stuck->buf, stuck->ptr - stuck->buf);
    PerlIO_pop(aTHX_ handle);
    hd_put_message(aTHX_ STR_WITH_LEN(STUCK), "warn");
}

/* Whether an unbuffered handle has bytes in a layer that an application has put on it. */
static bool is_stuck(PerlIO *handle) {
    const PerlIOl *top = PerlIOBase(handle);
    const U32 flags = PERLIO_F_UNBUF | PERLIO_F_WRBUF;
    return (top->flags & flags) == flags && top->tab->kind & PERLIO_K_BUFFERED && top->tab != &PerlIO_perlio &&
           PerlIOSelf(handle, PerlIOBuf)->ptr > PerlIOSelf(handle, PerlIOBuf)->buf;
}

/* Standard error is not buffered, but a layer that the application has put on it is (`use open qw(:std :encoding(UTF-8))`,
 * Catalyst): what that holds would be lost with a worker that is killed, come late, and be told of a later request. */
void hd_unbuffer_errors(pTHX) {
    PerlIO *handle = Perl_error_log;
    const U32 flags = PerlIOValid(handle) ? PerlIOBase(handle)->flags : PERLIO_F_UNBUF;
    if ((flags & (PERLIO_F_UNBUF | PERLIO_F_WRBUF)) == PERLIO_F_UNBUF ||
        PerlIOBase(lowest_layer(handle))->tab != &errors.layer)
        return;
    if (is_stuck(handle))
        take_stuck_layer(aTHX_ handle);
    if (PerlIOBase(handle)->flags & PERLIO_F_UNBUF)
        return;
    PerlIO_flush(handle);
    PerlIOBase(handle)->flags |= PERLIO_F_UNBUF;
}

static OP *(*plain_binmode)(pTHX);

/* Which pushes layers. */
static OP *binmode_and_unbuffer(pTHX) {
    OP *next = plain_binmode(aTHX);
    if (hd.cell)
        hd_unbuffer_errors(aTHX);
    return next;
}

/* Before the application is compiled: its calls of binmode will be ours. */
void hd_prepare_errors(void) {
    if (plain_binmode)
        return;
    plain_binmode = PL_ppaddr[OP_BINMODE];
    PL_ppaddr[OP_BINMODE] = binmode_and_unbuffer;
}

/* The application is loaded. In the place of a standard stream that it has closed, programs that it runs would have what is
 * opened next, such as a socket of ours, and perl, which takes that for the stream, would not close it with its variable.
 * Where it has put something else in the place of standard error, that is what there is. */
void hd_settle_streams(pTHX) {
    PerlIO *null;
    hd_know_errors(aTHX);
    if (errors.kept >= 0 && is_open() && fcntl(STDERR_FILENO, F_GETFD) < 0) /* behind the handle's back */
        dup2(errors.kept, STDERR_FILENO);
    while ((null = PerlIO_open("/dev/null", "r+")) && PerlIO_fileno(null) <= STDERR_FILENO)
        ;
    if (null)
        PerlIO_close(null);
    if (errors.kept >= 0 && is_open()) {
        close(errors.kept);
        errors.kept = -1;
    }
}

/* Makes `fd` this process's standard error; what Perl writes there bears the mark. */
void hd_open_errors(pTHX_ int fd, const U8 *secret) {
    if (dup2(fd, STDERR_FILENO) < 0 || fstat(STDERR_FILENO, &errors.pipe) != 0)
        return;
    my_snprintf(errors.mark, sizeof errors.mark, "\x1e%.*s", ZYGOTE_SECRET, (const char *)secret);
    hd_adopt_errors(aTHX);
}

/* Makes descriptor 2 what it was, after a CGI script has closed it or put something else there. */
void hd_point_errors(void) {
    if (errors.kept >= 0)
        dup2(errors.kept, STDERR_FILENO);
}

/* Whether standard error is as it was the first time that somebody asked. */
bool hd_errors_are_whole(pTHX) {
    if (errors.kept < 0) {
        errors.kept = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
        if (!errors.mark[0])
            (void)fstat(STDERR_FILENO, &errors.pipe);
    }
    const IO *io = PL_stderrgv && isGV_with_GP(PL_stderrgv) ? GvIOp(PL_stderrgv) : NULL;
    PerlIO *handle = io && !SvRMAGICAL(io) ? IoOFP(io) : NULL;
    return PerlIOValid(handle) && (PerlIOBase(lowest_layer(handle))->tab == &errors.layer || !errors.mark[0]) &&
           !(PerlIOBase(handle)->flags & PERLIO_F_UTF8) && is_still_ours(STDERR_FILENO);
}

/* This process is a worker from now on; with -1 it is none any more. */
void hd_sign_errors(int worker) { errors.worker = worker; }
