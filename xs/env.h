#ifndef HOWDAH_ENV_H
#define HOWDAH_ENV_H
/*
 * What env.c, which fills the env, and kept.c, which looks after it when its request has ended, know of it: its keys. Those
 * that every env has are made in the zygote; those of request fields a worker learns as they come.
 */
#include "howdah.h"

enum hd_kind {
    HD_CONSTANT,  /* the same in every request */
    HD_TEXT,      /* a string of the request's */
    HD_REFERENCE, /* a reference to what is made for the request */
    HD_LIST,      /* a reference to an array that is empty at first */
    HD_FOREIGN    /* the application's */
};

struct hd_key {
    SV *name;       /* in perl's table of shared strings, so its address is that of the key in the env */
    SV *constant;
    HE *entry;      /* where the key stands in the env that is kept; NULL when it does not */
    UV serial;      /* of the last request that had this field */
    enum hd_kind kind;
};

/* More names of fields than a worker learns come as a stranger's keys do: stored, and deleted in the end. */
#define MOST_KEYS 96

extern struct hd_key hd_keys[MOST_KEYS];
extern U32 hd_key_count, hd_fixed_keys;

/* keys.c */
struct hd_key *hd_add_key(pTHX_ const char *name, STRLEN length, enum hd_kind kind);
struct hd_key *hd_key_named(pTHX_ const char *name, STRLEN length);
struct hd_key *hd_key_at(const char *address);
void hd_renew_keys(pTHX);

/* kept.c */
HV *hd_take_env(pTHX);
void hd_delete_entry(pTHX_ HV *env, HE *entry);

#endif
