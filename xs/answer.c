/*
 * How a worker answers what ask.c has heard: a short answer is a sentence; one of any size is a file of memory that is
 * sealed and goes to the front over the channel.
 */
#include "howdah.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

/* Answers with a descriptor, or with a sentence when that is -1. A front that is gone does not miss it. */
void hd_answer(Inquiry inquiry, U64 word, int fd, const char *sentence) {
    const Message message = {.kind = MESSAGE_KIND_ANSWER, .slot = inquiry, .value = word};
    hd_try_send(hd.channels[0], &message, sentence, strlen(sentence), fd);
}

/* A file of memory for an answer; NULL when there is none. */
FILE *hd_open_answer(void) {
    int fd = memfd_create("howdah answer", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    if (!file && fd >= 0)
        close(fd);
    return file;
}

/* A field of a record, see crates/find/src/records.rs; `end` is a tab, or a newline behind the last. */
void hd_put_field(FILE *file, const char *bytes, STRLEN length, char end) {
    for (const char *stop = bytes + length; bytes < stop; bytes++)
        if (isCNTRL_A(*bytes) || *bytes == '%')
            fprintf(file, "%%%02x", (U8)*bytes);
        else
            putc(*bytes, file);
    putc(end, file);
}

/* Sends and closes it. */
void hd_close_answer(Inquiry inquiry, U64 word, FILE *file) {
    const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;
    bool whole = file && fflush(file) == 0 && fcntl(fileno(file), F_ADD_SEALS, seals) == 0;
    if (whole)
        hd_answer(inquiry, word, fileno(file), "");
    else
        hd_answer(inquiry, word, -1, "the worker has no memory for its answer");
    if (file)
        fclose(file);
}
