/*
 * What holds the objects of a class: the shortest way to each from a variable that has a name, found by a walk over all
 * that Perl can reach from there, breadth first. It runs in a child (child.c), which has the memory for itself.
 *
 *     why      class, objects, objects that nothing with a name reaches
 *     chain    steps from the variable to the object; one line for each object, up to a bound
 *     loop     steps from an object that nothing reaches, back to itself
 *
 * A reference that is weak holds nothing, and is not followed.
 */
#include "howdah.h"
#include "leaks.h"

#define MOST_CHAINS 2000
#define MOST_LOOPS 50
#define LOOP_STEPS 20000
#define DEEPEST 200

enum step { BY_TOP, BY_REFERENCE, BY_INDEX, BY_KEY, BY_SLOT, BY_PAD, BY_FIELD, BY_MAGIC };

/* Something that has been reached, by that step from what stands at `parent`. */
struct node {
    SV *sv;
    U32 parent;
    enum step step;
    union {
        const char *name; /* BY_TOP: of all of it; BY_SLOT: its sigil */
        const HEK *key;
        SSize_t index;
        const PADNAME *variable; /* BY_PAD, and BY_FIELD */
    } by;
};

static struct {
    struct node *nodes;
    size_t count, room;
    U32 *table; /* numbers of nodes by their addresses; 0 is none */
    size_t mask;
} reached;

static size_t home(const SV *sv) { return PTR2UV(sv) * 0x9E3779B97F4A7C15u >> 20; }

static U32 *place_of(const SV *sv) {
    size_t at = home(sv) & reached.mask;
    while (reached.table[at] && reached.nodes[reached.table[at]].sv != sv)
        at = (at + 1) & reached.mask;
    return &reached.table[at];
}

static bool grow(void) {
    size_t room = reached.room ? reached.room * 2 : 1 << 16;
    struct node *nodes = realloc(reached.nodes, room * sizeof *nodes);
    U32 *table = calloc(room * 2, sizeof *table);
    if (nodes)
        reached.nodes = nodes;
    if (!nodes || !table)
        return false;
    free(reached.table);
    reached.room = room;
    reached.table = table;
    reached.mask = room * 2 - 1;
    for (U32 at = 1; at < reached.count; at++)
        *place_of(reached.nodes[at].sv) = at;
    return true;
}

static void forget(void) {
    reached.count = 1;
    if (reached.table)
        memset(reached.table, 0, (reached.mask + 1) * sizeof *reached.table);
}

static void reach(SV *sv, U32 parent, struct node by) {
    if (!sv || SvTYPE(sv) == (svtype)SVTYPEMASK || (reached.count >= reached.room && !grow()))
        return;
    U32 *place = place_of(sv);
    if (*place)
        return;
    by.sv = sv;
    by.parent = parent;
    reached.nodes[reached.count] = by;
    *place = reached.count++;
}

static void follow_hash(pTHX_ U32 from, HV *hv) {
    for (STRLEN bucket = 0; HvARRAY(hv) && bucket <= HvMAX(hv); bucket++)
        for (HE *entry = HvARRAY(hv)[bucket]; entry; entry = HeNEXT(entry))
            reach(HeVAL(entry), from, (struct node){.step = BY_KEY, .by.key = HeKEY_hek(entry)});
}

static void follow_glob(pTHX_ U32 from, GV *gv) {
    reach(GvSV(gv), from, (struct node){.step = BY_SLOT, .by.name = "$"});
    reach((SV *)GvAV(gv), from, (struct node){.step = BY_SLOT, .by.name = "@"});
    reach((SV *)GvHV(gv), from, (struct node){.step = BY_SLOT, .by.name = "%"});
    reach((SV *)GvCV(gv), from, (struct node){.step = BY_SLOT, .by.name = "&"});
    reach((SV *)GvIOp(gv), from, (struct node){.step = BY_SLOT, .by.name = "*"});
}

static void follow_code(pTHX_ U32 from, CV *cv) {
    if (CvISXSUB(cv) || !CvPADLIST(cv))
        return;
    PADLIST *list = CvPADLIST(cv);
    PADNAMELIST *names = PadlistNAMES(list);
    for (SSize_t depth = 1; depth <= PadlistMAX(list); depth++) {
        PAD *pad = PadlistARRAY(list)[depth];
        for (SSize_t at = 0; pad && at <= AvFILLp(pad); at++) {
            PADNAME *name = at <= PadnamelistMAX(names) ? PadnamelistARRAY(names)[at] : NULL;
            bool named = name && PadnamePV(name) && PadnameLEN(name) > 1;
            reach(AvARRAY(pad)[at], from, (struct node){.step = BY_PAD, .by.variable = named ? name : NULL});
        }
    }
}

#ifdef ObjectFIELDS /* `class`, since perl 5.38 */
/* A class knows the names of its own fields alone; those of the one above it have lower numbers. */
static const PADNAME *name_of_field(const HV *class, PADOFFSET index) {
    for (; class; class = HvAUX(class)->xhv_class_superclass) {
        PADNAMELIST *names = HvAUX(class)->xhv_class_fields;
        for (SSize_t at = 0; names && at <= PadnamelistMAX(names); at++)
            if (PadnameFIELDINFO(PadnamelistARRAY(names)[at])->fieldix == index)
                return PadnamelistARRAY(names)[at];
    }
    return NULL;
}

static void follow_fields(U32 from, SV *object) {
    for (SSize_t at = 0; at <= ObjectMAXFIELD(object); at++)
        reach(ObjectFIELDS(object)[at], from,
              (struct node){.step = BY_FIELD, .by.variable = name_of_field(SvSTASH(object), at)});
}
#endif

static void follow_magic(pTHX_ U32 from, SV *sv) {
    for (MAGIC *magic = SvMAGIC(sv); magic; magic = magic->mg_moremagic)
        if (magic->mg_flags & MGf_REFCOUNTED && magic->mg_type != PERL_MAGIC_backref)
            reach(magic->mg_obj, from, (struct node){.step = BY_MAGIC});
}

static void follow(pTHX_ U32 from) {
    SV *sv = reached.nodes[from].sv;
    if (SvTYPE(sv) == SVt_PVAV)
        for (SSize_t at = 0; AvREAL((AV *)sv) && at <= AvFILLp((AV *)sv); at++)
            reach(AvARRAY((AV *)sv)[at], from, (struct node){.step = BY_INDEX, .by.index = at});
    else if (SvTYPE(sv) == SVt_PVHV)
        follow_hash(aTHX_ from, (HV *)sv);
    else if (SvTYPE(sv) == SVt_PVCV)
        follow_code(aTHX_ from, (CV *)sv);
    else if (isGV_with_GP(sv))
        follow_glob(aTHX_ from, (GV *)sv);
#ifdef ObjectFIELDS
    else if (SvTYPE(sv) == SVt_PVOBJ)
        follow_fields(from, sv);
#endif
    else if (SvROK(sv) && !SvWEAKREF(sv))
        reach(SvRV(sv), from, (struct node){.step = BY_REFERENCE});
    if (SvTYPE(sv) >= SVt_PVMG && SvTYPE(sv) != SVt_PVCV && SvMAGIC(sv))
        follow_magic(aTHX_ from, sv);
}

static void put(FILE *file, const char *bytes, STRLEN length) { hd_put_field(file, bytes, length, '\t'); }

/* `%Shop::cache`, for a slot of a glob. */
static void put_global(pTHX_ FILE *file, const struct node *slot) {
    GV *gv = (GV *)reached.nodes[slot->parent].sv;
    SV *name = sv_newmortal();
    gv_efullname4(name, gv, slot->by.name, TRUE);
    put(file, SvPVX(name), SvCUR(name));
}

/* `my %cache in Shop::get`, for a variable of code. */
static void put_lexical(pTHX_ FILE *file, const struct node *node) {
    CV *cv = (CV *)reached.nodes[node->parent].sv;
    GV *gv = CvNAMED(cv) || CvANON(cv) ? NULL : CvGV(cv);
    const char *source = CvSTART(cv) && CvSTART(cv)->op_type == OP_NEXTSTATE ? CopFILE((COP *)CvSTART(cv)) : CvFILE(cv);
    SV *text = sv_2mortal(newSVpvf("my %s in ", PadnamePV(node->by.variable)));
    if (gv && GvSTASH(gv) && SvOOK(GvSTASH(gv)))
        sv_catpvf(text, "%s::%s, ", HvNAME(GvSTASH(gv)), GvNAME(gv));
    sv_catpvf(text, "%s", source ? source : "code");
    put(file, SvPVX(text), SvCUR(text));
}

/* A step; true when what it leads to has a name of its own. */
static bool names(const struct node *node) {
    return node->step == BY_TOP || node->step == BY_SLOT || (node->step == BY_PAD && node->by.variable);
}

static void put_class(pTHX_ FILE *file, const SV *sv) {
    const char *name = SvOBJECT(sv) ? HvNAME(SvSTASH(sv)) : NULL;
    SV *text = sv_2mortal(name ? newSVpvf("(%s)", name) : newSVpvs("(code)"));
    if (name || SvTYPE(sv) == SVt_PVCV)
        put(file, SvPVX(text), SvCUR(text));
}

static void put_step(pTHX_ FILE *file, const struct node *node) {
    char index[32];
    switch (node->step) {
    case BY_TOP: put(file, node->by.name, strlen(node->by.name)); break;
    case BY_SLOT: put_global(aTHX_ file, node); break;
    case BY_PAD:
        if (node->by.variable)
            put_lexical(aTHX_ file, node);
        break;
    case BY_FIELD: {
        SV *field = sv_2mortal(newSVpvf("field %s", node->by.variable ? PadnamePV(node->by.variable) : "?"));
        put(file, SvPVX(field), SvCUR(field));
        break;
    }
    case BY_INDEX: put(file, index, snprintf(index, sizeof index, "[%ld]", (long)node->by.index)); break;
    case BY_KEY: {
        SV *key = sv_2mortal(newSVpvf("{%.*s}", (int)HEK_LEN(node->by.key), HEK_KEY(node->by.key)));
        put(file, SvPVX(key), SvCUR(key));
        break;
    }
    case BY_MAGIC: put(file, "(magic)", 7); break;
    case BY_REFERENCE: break;
    }
    if (node->step != BY_TOP)
        put_class(aTHX_ file, node->sv);
}

/* The steps to a node from the nearest name above it, or from the node `top`. */
static void put_chain(pTHX_ FILE *file, const char *kind, U32 node, U32 top) {
    U32 line[DEEPEST];
    int depth = 0;
    SAVETMPS;
    for (U32 at = node; at && depth < DEEPEST; at = reached.nodes[at].parent) {
        line[depth++] = at;
        if (at == top || (!top && at != node && names(&reached.nodes[at])))
            break;
    }
    fprintf(file, "%s\t", kind);
    while (depth-- > 0)
        put_step(aTHX_ file, &reached.nodes[line[depth]]);
    fputc('\n', file);
    FREETMPS;
}

static U32 hashed(U32 hash, U8 byte) { return (hash ^ byte) * 16777619u; }

/* Of a name in UTF-8. What perl has in Latin-1 is meant by that, too. */
static U32 hash_of(const char *name, bool is_latin1) {
    U32 hash = 2166136261u;
    for (; *name; name++)
        if (is_latin1 && !UTF8_IS_INVARIANT(*name))
            hash = hashed(hashed(hash, UTF8_TWO_BYTE_HI((U8)*name)), UTF8_TWO_BYTE_LO((U8)*name));
        else
            hash = hashed(hash, *name);
    return hash;
}

static bool is_wanted(pTHX_ const SV *sv, U32 hash) {
    const char *name = SvOBJECT(sv) ? HvNAME(SvSTASH(sv)) : NULL;
    return name && hash_of(name, !is_utf8_string((const U8 *)name, HvNAMELEN(SvSTASH(sv)))) == hash;
}

static struct {
    SV **list;
    size_t count, room;
    U32 hash;
} wanted;

static void collect(pTHX_ SV *sv) {
    if (!is_wanted(aTHX_ sv, wanted.hash))
        return;
    if (wanted.count == wanted.room) {
        size_t room = wanted.room ? wanted.room * 2 : 1024;
        SV **list = realloc(wanted.list, room * sizeof *list);
        if (!list)
            return;
        wanted.list = list;
        wanted.room = room;
    }
    wanted.list[wanted.count++] = sv;
}

/* All that is reached from names. What only C code of ours holds comes last. */
static void walk(pTHX) {
    forget();
    if (!reached.room && !grow())
        return;
    reach((SV *)PL_defstash, 0, (struct node){.step = BY_TOP, .by.name = "the symbol table"});
    reach((SV *)PL_main_cv, 0, (struct node){.step = BY_TOP, .by.name = "the main program"});
    reach(SvROK(hd.app) ? SvRV(hd.app) : hd.app, 0, (struct node){.step = BY_TOP, .by.name = "the application"});
    reach((SV *)PL_curstack, 0, (struct node){.step = BY_TOP, .by.name = "Perl's stack"});
    for (U32 at = 1; at < reached.count; at++)
        follow(aTHX_ at);
}

/* The way from an object back to itself, if there is one. */
static bool put_loop(pTHX_ FILE *file, SV *object) {
    forget();
    reach(object, 0, (struct node){.step = BY_TOP, .by.name = "an object"});
    for (U32 at = 1; at < reached.count && at < LOOP_STEPS; at++) {
        SV *sv = reached.nodes[at].sv;
        bool closes = SvROK(sv) && !SvWEAKREF(sv) && SvRV(sv) == object;
        follow(aTHX_ at);
        if (closes) {
            put_chain(aTHX_ file, "loop", at, 1);
            return true;
        }
    }
    return false;
}

void hd_write_chains(pTHX_ FILE *file, U32 hash) {
    size_t lost = 0, chains = 0;
    wanted.hash = hash;
    hd_each_sv(aTHX_ collect);
    walk(aTHX);
    for (size_t i = 0; i < wanted.count; i++) {
        U32 node = reached.table ? *place_of(wanted.list[i]) : 0;
        if (!node)
            wanted.list[lost++] = wanted.list[i];
        else if (chains++ < MOST_CHAINS)
            put_chain(aTHX_ file, "chain", node, 0);
    }
    for (size_t i = 0; i < lost && i < MOST_LOOPS; i++)
        put_loop(aTHX_ file, wanted.list[i]);
    fprintf(file, "why\t%zu\t%zu\n", wanted.count, lost);
}
