/*
 * The keys of an env, found by their names and by their addresses. Called by env.c and kept.c.
 *
 * Perl keeps each key of all hashes once in a table of shared strings. As long as a key stands here it has its place there,
 * so an entry of a hash has it if and only if the address is the same.
 */
#include "env.h"

#define PLACES 256      /* a power of two, more than twice MOST_KEYS */
#define LONGEST_NAME 64 /* bytes; a longer name is not learned, since it would be kept */

struct hd_key hd_keys[MOST_KEYS];
U32 hd_key_count, hd_fixed_keys;

/* Numbers of keys, from 1. */
static U8 by_name[PLACES], by_address[PLACES];
static bool is_full; /* a name was not learned for lack of room */

static U32 place_of_name(const char *name, STRLEN length) { return hd_hash(name, length) & (PLACES - 1); }

static U32 place_of_address(const char *address) {
    const UV number = PTR2UV(address) >> 3;
    return (number ^ number >> 8) & (PLACES - 1);
}

static void enter(U8 *places, U32 place, U32 number) {
    while (places[place])
        place = (place + 1) & (PLACES - 1);
    places[place] = number;
}

static void find_places(U32 index) {
    const SV *name = hd_keys[index].name;
    enter(by_name, place_of_name(SvPVX_const(name), SvCUR(name)), index + 1);
    enter(by_address, place_of_address(SvPVX_const(name)), index + 1);
}

/* There must be room. */
struct hd_key *hd_add_key(pTHX_ const char *name, STRLEN length, enum hd_kind kind) {
    struct hd_key *key = &hd_keys[hd_key_count];
    *key = (struct hd_key){.name = newSVpvn_share(name, length, 0), .kind = kind};
    find_places(hd_key_count++);
    return key;
}

/* The key of that name, which is learned if there is room and it is not too long; else NULL. */
struct hd_key *hd_key_named(pTHX_ const char *name, STRLEN length) {
    if (length > LONGEST_NAME)
        return NULL;
    for (U32 at = place_of_name(name, length); by_name[at]; at = (at + 1) & (PLACES - 1)) {
        struct hd_key *key = &hd_keys[by_name[at] - 1];
        if (SvCUR(key->name) == length && memEQ(SvPVX(key->name), name, length))
            return key;
    }
    is_full = hd_key_count == MOST_KEYS;
    return is_full ? NULL : hd_add_key(aTHX_ name, length, HD_TEXT);
}

/* The key whose name has that address, if it is one of ours. */
struct hd_key *hd_key_at(const char *address) {
    for (U32 at = place_of_address(address); by_address[at]; at = (at + 1) & (PLACES - 1)) {
        struct hd_key *key = &hd_keys[by_address[at] - 1];
        if (SvPVX(key->name) == address)
            return key;
    }
    return NULL;
}

/* Forgets the names of fields when there are too many, among which those of today are not. */
void hd_renew_keys(pTHX) {
    if (!is_full)
        return;
    is_full = false;
    while (hd_key_count > hd_fixed_keys)
        SvREFCNT_dec(hd_keys[--hd_key_count].name);
    Zero(by_name, PLACES, U8);
    Zero(by_address, PLACES, U8);
    for (U32 i = 0; i < hd_key_count; i++)
        find_places(i);
}
