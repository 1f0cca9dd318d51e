/*
 * Checks the status and header of a response and writes the lines to the start of the ring. Called by response.c.
 *
 * Whatever could split the header is the application's error and becomes a 500 with the reason in the log. The front
 * owns the connection, so fields about framing and connection are taken out here and told to it as flags: it writes
 * Content-Length, Transfer-Encoding and Connection itself.
 */
#include "howdah.h"

/* What a field is to us, besides a line to pass on. */
enum meaning { PLAIN, DATE, SERVER, REQUEST_ID, LENGTH, CONNECTION, UPGRADE, CODING, DROPPED };

static const struct {
    const char *name;
    STRLEN length;
    enum meaning meaning;
} SPECIAL[] = {
#define FIELD(name, meaning) {name, sizeof name - 1, meaning}
    FIELD("date", DATE),
    FIELD("server", SERVER),
    FIELD("x-request-id", REQUEST_ID),
    FIELD("content-length", LENGTH),
    FIELD("connection", CONNECTION),
    FIELD("transfer-encoding", CODING),
    FIELD("keep-alive", DROPPED),
    FIELD("proxy-connection", DROPPED),
    FIELD("trailer", DROPPED),
    FIELD("te", DROPPED),
    FIELD("upgrade", UPGRADE),
#undef FIELD
};

/* Final status: three digits from 200 on. Interim ones go by psgix.informational. A phrase behind it ("404 Not Found"), which
 * PSGI does not have and other servers print, is passed over. */
U32 hd_status(pTHX_ SV *sv) {
    STRLEN length;
    const char *text = hd_bytes(aTHX_ sv, &length, "status");
    bool three = length >= 3 && isDIGIT(text[0]) && isDIGIT(text[1]) && isDIGIT(text[2]);
    three = three && (length == 3 || text[3] == ' ');
    U32 status = three ? (text[0] - '0') * 100 + (text[1] - '0') * 10 + (text[2] - '0') : 0;
    if (status < 100)
        croak("the response status is \"%.40s\" where it must be a number from 200 to 999", text);
    return status;
}

static enum meaning meaning_of(pTHX_ const char *name, STRLEN length) {
    for (size_t i = 0; i < sizeof SPECIAL / sizeof *SPECIAL; i++)
        if (SPECIAL[i].length == length && foldEQ(name, SPECIAL[i].name, length))
            return SPECIAL[i].meaning;
    return PLAIN;
}

/* A token, RFC 9110 5.6.2. */
static void check_name(pTHX_ const char *name, STRLEN length) {
    STRLEN i = 0;
    while (i < length && (isWORDCHAR_A(name[i]) || (name[i] && strchr("-!#$%&'*+.^`|~", name[i]))))
        i++;
    if (i < length || length == 0)
        croak("the response has an invalid header name \"%.80s\"", name);
}

/* A field value, RFC 9110 5.5: no control characters, above all no CR, LF and NUL. */
static void check_value(pTHX_ const char *name, const char *value, STRLEN length) {
    for (STRLEN i = 0; i < length; i++) {
        U8 c = value[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f)
            croak("the response header %s has the control character \\x%02X in its value", name, c);
    }
}

static bool all_digits(const char *value, STRLEN length) {
    while (length && isDIGIT(value[length - 1]))
        length--;
    return !length;
}

/* Blanks around a value are none of it (RFC 9110 5.5), and one without a value counts as one that is not there: then the
 * bytes are counted here. */
static void take_length(pTHX_ struct hd_head *head, const char *value, STRLEN length) {
    const char *given = value;
    for (; length && isBLANK(*value); length--)
        value++;
    while (length && isBLANK(value[length - 1]))
        length--;
    if (!length)
        return;
    UV number = 0;
    if (!all_digits(value, length) || grok_number(value, length, &number) != IS_NUMBER_IN_UV || number > IV_MAX)
        croak("the response header Content-Length is \"%.40s\" where it must be a number of bytes", given);
    if (head->content_length >= 0 && head->content_length != (I64)number)
        croak("the response has two Content-Lengths, %" IVdf " and %" UVuf, (IV)head->content_length, number);
    head->content_length = number;
}

/* Whether a comma-separated list has the word, RFC 9110 5.6.1. */
static bool has_word(pTHX_ const char *list, const char *word, STRLEN length) {
    for (const char *at = list; *at; at += strcspn(at, ",")) {
        at += strspn(at, ", \t");
        if (foldEQ(at, word, length) && strchr(", \t", at[length]))
            return true;
    }
    return false;
}

/* Transfer codings are the front's affair. A body of an application that is in one of these would be taken for what it is not, once
 * nothing says so any more; other words ("binary", "8bit") say nothing of the bytes. */
static void take_coding(pTHX_ const char *value) {
    static const char *const codings[] = {"gzip", "x-gzip", "deflate", "compress", "x-compress", "br", "zstd"};
    for (size_t i = 0; i < C_ARRAY_LENGTH(codings); i++)
        if (has_word(aTHX_ value, codings[i], strlen(codings[i])))
            croak("the response header Transfer-Encoding is \"%.40s\", but codings of the transfer are the server's: say "
                  "Content-Encoding where the body is in %s",
                  value, codings[i]);
    hd.now.dechunk |= has_word(aTHX_ value, STR_WITH_LEN("chunked"));
}

/* Notes what a field means to the front. False when its line is not to be sent. */
static bool keep_line(pTHX_ struct hd_head *head, enum meaning meaning, const char *value, STRLEN length) {
    switch (meaning) {
    case DATE: head->flags |= RESPONSE_HAS_DATE; return true;
    case SERVER: head->flags |= RESPONSE_HAS_SERVER; return true;
    case REQUEST_ID: head->flags |= RESPONSE_HAS_REQUEST_ID; return true;
    case LENGTH: take_length(aTHX_ head, value, length); return false;
    case CONNECTION:
        head->flags |= has_word(aTHX_ value, STR_WITH_LEN("close")) ? RESPONSE_CLOSE : 0;
        head->connection = true;
        return head->status == 101;
    case UPGRADE: head->upgrade = true; return head->status == 101 || head->status == 426; /* RFC 9110 15.5.22 */
    case CODING: take_coding(aTHX_ value); return false;
    case DROPPED: return false;
    default: return true;
    }
}

/* One field as a line at `at`; returns its end. */
static char *write_line(pTHX_ struct hd_head *head, SV *name_sv, SV *value_sv, char *at, const char *end) {
    STRLEN name_length, value_length;
    const char *name = hd_bytes(aTHX_ name_sv, &name_length, "a response header name");
    const char *value = hd_bytes(aTHX_ value_sv, &value_length, "a response header");
    check_name(aTHX_ name, name_length);
    check_value(aTHX_ name, value, value_length);
    if (!SvOK(value_sv))
        Perl_warner(aTHX_ packWARN(WARN_UNINITIALIZED), "the response header %s has no value", name);
    if (!keep_line(aTHX_ head, meaning_of(aTHX_ name, name_length), value, value_length))
        return at;
    if (name_length + value_length + 4 > (STRLEN)(end - at))
        croak("the response header is longer than %d bytes", RESPONSE_HEAD);
    at = (char *)memcpy(at, name, name_length) + name_length;
    at = (char *)memcpy(at, ": ", 2) + 2;
    at = (char *)memcpy(at, value, value_length) + value_length;
    return (char *)memcpy(at, "\r\n", 2) + 2;
}

static SV *element(pTHX_ AV *array, SSize_t index) {
    SV **found = av_fetch(array, index, 0);
    return found ? *found : &PL_sv_undef;
}

/* Whether a Connection among the fields lists this one, which is then for the connection alone. */
static bool is_listed(pTHX_ AV *headers, const char *name, STRLEN length) {
    for (SSize_t i = 0, count = av_len(headers) + 1; i < count; i += 2) {
        STRLEN own_length, list_length;
        const char *own = hd_bytes(aTHX_ element(aTHX_ headers, i), &own_length, "a response header name");
        if (meaning_of(aTHX_ own, own_length) != CONNECTION)
            continue;
        const char *list = hd_bytes(aTHX_ element(aTHX_ headers, i + 1), &list_length, "a response header");
        if (has_word(aTHX_ list, name, length))
            return true;
    }
    return false;
}

/* Our Connection no longer names these fields, so they would be taken for fields of the response (RFC 9110 7.6.1). Those that
 * the front has been told of stay. Returns the end of the lines that are left. */
static char *drop_listed(pTHX_ AV *headers, char *lines, const char *end) {
    char *at = lines;
    for (const char *line = lines, *next; line < end; line = next) {
        next = (const char *)memchr(line, '\n', end - line) + 1;
        STRLEN name = (const char *)memchr(line, ':', next - line) - line;
        if (meaning_of(aTHX_ line, name) == PLAIN && is_listed(aTHX_ headers, line, name))
            continue;
        memmove(at, line, next - line);
        at += next - line;
    }
    return at;
}

/* A value that is undef makes a warning, for which the application may have a handler. */
static bool has_code(pTHX_ AV *headers) {
    if (SvRMAGICAL(headers))
        return true;
    for (SSize_t i = 0, count = av_len(headers) + 1; i < count; i++) {
        const SV *sv = element(aTHX_ headers, i);
        if (SvROK(sv) || SvGMAGICAL(sv) || !SvOK(sv))
            return true;
    }
    return false;
}

/* The fields, in a list that nobody else has where code of the application's makes any: it may change or free its own meanwhile. */
static AV *own_list(pTHX_ AV *headers) {
    if (LIKELY(!has_code(aTHX_ headers)))
        return headers;
    AV *own = (AV *)sv_2mortal((SV *)newAV());
    sv_2mortal(SvREFCNT_inc_simple_NN((SV *)headers));
    for (SSize_t i = 0; i <= av_len(headers); i++)
        av_push(own, newSVsv(element(aTHX_ headers, i)));
    return own;
}

/* Writes the lines of `given` at `lines`, which has RESPONSE_HEAD bytes; the head's other parts are set here too. */
void hd_write_head(pTHX_ struct hd_head *head, AV *given, char *lines) {
    AV *headers = own_list(aTHX_ given);
    SSize_t count = av_len(headers) + 1;
    if (count % 2)
        croak("the response headers have an odd number of elements (%" IVdf ")", (IV)count);
    char *at = lines;
    for (SSize_t i = 0; i < count; i += 2)
        at = write_line(aTHX_ head, element(aTHX_ headers, i), element(aTHX_ headers, i + 1), at,
                        lines + RESPONSE_HEAD);
    if (head->connection && head->status != 101)
        at = drop_listed(aTHX_ headers, lines, at);
    head->length = at - lines;
}
