/*
 * Reads the request in the slot, for env.c, input.c, title.c and errors.c. The front has checked what it wrote there, but
 * any worker may have written over it since: each number is copied once, and nothing read reaches beyond the request.
 * Single strings are read by hd_text in howdah.h.
 */
#include "howdah.h"

/* The present request. Where the slot holds another one, or nonsense, it has no bytes. */
void hd_open_request(void) { hd.now.request = (const RequestRecord *)howdah_request(hd.now.slot, &hd.now.used); }

void hd_damaged(pTHX) { croak("its request was overwritten in shared memory, by a fault in this worker or another one"); }

/* The fields, as many as there are and can be. */
const FieldRecord *hd_fields(U32 *count) {
    size_t most = hd.now.used > sizeof(RequestRecord) ? (hd.now.used - sizeof(RequestRecord)) / sizeof(FieldRecord) : 0;
    U32 fields = most ? HD_LOAD(hd.now.request->fields) : 0;
    *count = fields < most ? fields : most;
    return (const FieldRecord *)(hd.now.request + 1);
}

/* The value of a field by its name in the env; NULL when the request has none. */
const Span *hd_field(const char *name, STRLEN length) {
    U32 left;
    for (const FieldRecord *field = hd_fields(&left); left; left--, field++) {
        STRLEN found;
        const char *text = hd_find_text(&field->name, &found);
        if (text && found == length && memEQ(text, name, length))
            return &field->value;
    }
    return NULL;
}
