/*
 * A response body that is a file handle, or an object with getline and close. Called by response.c once the header
 * lines stand at the start of the ring.
 *
 * A large plain file goes to the front as a descriptor; a small one is read straight into the ring. Other handles, and
 * files that do not tell their length, as those of /proc, are read as their bytes come, other objects by getline. exchange.c calls close afterwards, whatever happened.
 */
#include "howdah.h"
#include "perliol.h"

#include <fcntl.h>
#include <sys/stat.h>

/* Files above this size are sent by the front. */
#define SMALL_FILE (64 * 1024)
/* What a handle is asked for at once. */
#define PIECE 65536

/* The class of a blessed handle may have its own getline: then the descriptor says nothing about the body. */
static bool has_own_getline(pTHX_ SV *glob) {
    if (!SvOBJECT(glob))
        return false;
    GV *method = gv_fetchmeth_pvn(SvSTASH(glob), "getline", 7, 0, 0);
    return method && GvCV(method) != get_cv("IO::Handle::getline", 0);
}

/* The stream behind a real handle that yields bytes, or NULL. */
static PerlIO *stream_of(pTHX_ SV *body) {
    SV *target = SvROK(body) ? SvRV(body) : body;
    IO *io = isGV_with_GP(target) ? GvIO((GV *)target) : SvTYPE(target) == SVt_PVIO ? (IO *)target : NULL;
    if (!io || (SvRMAGICAL(io) && mg_find((SV *)io, PERL_MAGIC_tiedscalar)) || has_own_getline(aTHX_ target))
        return NULL;
    PerlIO *fp = IoIFP(io);
    if (!fp) /* to read it would look like the end of an empty body */
        croak("the response body is a handle that is not open");
    return PerlIOValid(fp) && !(PerlIOBase(fp)->flags & PERLIO_F_UTF8) ? fp : NULL;
}

static bool has_plain_layers(PerlIO *fp) {
    for (PerlIOl *layer = *fp; layer; layer = layer->next)
        if ((strNE(layer->tab->name, "unix") && strNE(layer->tab->name, "perlio")) ||
            (layer->flags & (PERLIO_F_CRLF | PERLIO_F_UTF8)))
            return false;
    return true;
}

/* Whether the descriptor stands for the body: a regular file without layers, which has some. Sets where and how much. */
static bool is_plain_file(pTHX_ PerlIO *fp, int *fd, Off_t *from, U64 *length) {
    struct stat status;
    *fd = PerlIO_fileno(fp);
    if (!has_plain_layers(fp) || *fd < 0 || fstat(*fd, &status) != 0 || !S_ISREG(status.st_mode))
        return false;
    *from = PerlIO_tell(fp);
    *length = status.st_size > *from ? status.st_size - *from : 0;
    return *from >= 0 && *length > 0;
}

/*
 * A descriptor of our own on the same file: the application may go on to use its handle, whose position a duplicate
 * would share, while the front still sends.
 */
static int reopen(pTHX_ int fd, Off_t from) {
    char path[40];
    my_snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int own = open(path, O_RDONLY | O_CLOEXEC);
    if (own >= 0 && lseek(own, from, SEEK_SET) == from)
        return own;
    if (own >= 0)
        close(own);
    return -1;
}

static void close_descriptor(pTHX_ void *fd) { close((int)(intptr_t)fd); }

/* Hands the file to the front. False when it cannot be opened anew, or the kernel passes no descriptor. */
static bool send_file(pTHX_ int fd, Off_t from, U64 length) {
    struct hd_head *head = &hd.now.head;
    int own = reopen(aTHX_ fd, from);
    if (own < 0)
        return false;
    SAVEDESTRUCTOR_X(close_descriptor, (void *)(intptr_t)own);
    U64 wanted = head->content_length >= 0 ? (U64)head->content_length : length;
    Message message = {MESSAGE_KIND_FILE, hd.now.slot, wanted};
    if (!hd_try_send(hd_channel(), &message, NULL, 0, own))
        return false;
    howdah_produce(hd.now.slot, head->length);
    hd_publish(RESPONSE_FILE);
    return true;
}

/* Reads a small file straight behind the head, also to learn its length: those of /sys have less than they say. */
static void copy_file(pTHX_ int fd, Off_t from, U64 length) {
    uintptr_t room, used = hd.now.head.length;
    char *ring = (char *)howdah_room(hd.now.slot, &room);
    U64 left = length < room - used ? length : room - used;
    for (ssize_t got = 1; left && got; used += got, from += got, left -= got)
        if ((got = pread(fd, ring + used, left, from)) < 0)
            croak("cannot read the response body: %s", Strerror(errno));
    hd_default_length(used - hd.now.head.length);
    howdah_produce(hd.now.slot, hd.now.bodyless ? hd.now.head.length : used);
    hd_publish(0);
}

static void send_nothing(void) {
    howdah_produce(hd.now.slot, hd.now.head.length);
    hd_publish(0);
}

static bool send_plain_file(pTHX_ PerlIO *fp) {
    int fd;
    Off_t from;
    U64 length;
    if (hd.now.dechunk || !is_plain_file(aTHX_ fp, &fd, &from, &length))
        return false;
    if (length <= SMALL_FILE) {
        copy_file(aTHX_ fd, from, length);
        return true;
    }
    if (!hd.now.bodyless && send_file(aTHX_ fd, from, length))
        return true;
    hd_default_length(length);
    if (hd.now.bodyless)
        send_nothing();
    return hd.now.bodyless;
}

/* The bytes that are at hand, or that one read brings; 0 at the end. */
static SSize_t read_some(pTHX_ PerlIO *fp, char *buffer) {
    if (!PerlIO_has_cntptr(fp))
        return PerlIO_read(fp, buffer, PIECE);
    if (PerlIO_get_cnt(fp) <= 0 && PerlIO_fill(fp) != 0)
        return PerlIO_error(fp) ? -1 : 0;
    SSize_t ready = PerlIO_get_cnt(fp);
    return PerlIO_read(fp, buffer, ready < PIECE ? ready : PIECE);
}

/* Publishes the head before the first piece, and lets the front send each piece while the next is made. */
static void send_piece(pTHX_ const char *bytes, STRLEN length) {
    if (hd.now.progress == HD_NOTHING_OUT) {
        howdah_produce(hd.now.slot, hd.now.head.length);
        hd_publish(0);
    }
    hd_put(aTHX_ bytes, length);
    hd_tell();
}

static void end_pieces(void) {
    if (hd.now.progress != HD_NOTHING_OUT)
        return;
    hd_default_length(0);
    send_nothing();
}

static void send_stream(pTHX_ PerlIO *fp) {
    char *buffer = SvGROW(sv_2mortal(newSVpvs("")), PIECE);
    SSize_t got;
    if (!(PerlIOBase(fp)->flags & PERLIO_F_CANREAD)) /* to read it would look like the end of an empty body */
        croak("the response body is a handle that was opened only for writing");
    while ((got = read_some(aTHX_ fp, buffer)) > 0 && !HD_LOAD(hd.now.control->abandoned))
        send_piece(aTHX_ buffer, got);
    if (got < 0)
        croak("cannot read the response body: %s", Strerror(errno));
    end_pieces();
}

/* The next line of the body; false at its end. The caller frees temporaries. */
static bool get_line(pTHX_ SV *body, SV **line) {
    dSP;
    PUSHMARK(SP);
    XPUSHs(body);
    PUTBACK;
    call_method("getline", G_SCALAR);
    SPAGAIN;
    *line = POPs;
    PUTBACK;
    if (UNLIKELY(SvGMAGICAL(*line)))
        *line = sv_mortalcopy(*line); /* what is tied may be another line at the next look */
    return SvOK(*line);
}

static void send_lines(pTHX_ SV *body) {
    SV *line;
    SV *rs = save_scalar(gv_fetchpvs("/", GV_ADD, SVt_PV));
    sv_setsv_mg(rs, sv_2mortal(newRV_noinc(newSViv(PIECE))));
    for (bool more = true; more && !HD_LOAD(hd.now.control->abandoned);) {
        STRLEN length;
        ENTER;
        SAVETMPS;
        if ((more = get_line(aTHX_ body, &line))) {
            const char *bytes = hd_bytes(aTHX_ line, &length, "body");
            send_piece(aTHX_ bytes, length);
        }
        FREETMPS;
        LEAVE;
    }
    end_pieces();
}

void hd_send_handle(pTHX_ SV *body) {
    if (!SvROK(body) && !isGV_with_GP(body))
        croak("the response body must be an array of strings, or a handle, not %s", SvOK(body) ? "a string" : "undef");
    SvREFCNT_dec(hd.now.body); /* of a response that was none, after which the application has given another one */
    hd.now.body = SvROK(body) ? newSVsv(body) : newRV_inc(body); /* exchange.c gives it back */
    PerlIO *fp = stream_of(aTHX_ body);
    if (fp && send_plain_file(aTHX_ fp))
        return;
    if (hd.now.bodyless)
        send_nothing();
    else if (fp)
        send_stream(aTHX_ fp);
    else
        send_lines(aTHX_ hd.now.body);
}
