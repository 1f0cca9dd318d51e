/*
 * Where objects were blessed: a number for each file and line, by which leaks.c notes them. A file's name is copied, since
 * the code may be gone when the report is made (`eval` of a string). The numbers of code that runs again and again are kept
 * by the address of its statement, and checked against what stands there.
 */
#include "howdah.h"
#include "leaks.h"

#define KEPT 1024
#define MOST_PLACES 16384 /* what is above that counts as in no place */
#define BUCKETS 4096

struct place {
    char *file;
    U32 line;
    U32 next; /* in its bucket */
    bool library;
    bool outermost; /* where the server calls the application */
};

static struct place *places; /* number 0 is none */
static U32 count = 1, room;
static U32 buckets[BUCKETS];

static struct {
    const COP *cop;
    U32 place;
} kept[KEPT];

/* Directories of perl's own and of installed modules. */
static const char *const libraries[] = {
    PRIVLIB_EXP, ARCHLIB_EXP, SITELIB_EXP, SITEARCH_EXP,
#ifdef PERL_VENDORLIB_EXP
    PERL_VENDORLIB_EXP,
#endif
#ifdef PERL_VENDORARCH_EXP
    PERL_VENDORARCH_EXP,
#endif
};

/* Code that a module has generated has a name that is no file's. */
static bool in_library(const char *file) {
    if (*file == '(' || strchr(file, ' ') || strstr(file, "/lib/perl5/"))
        return true;
    for (size_t i = 0; i < C_ARRAY_LENGTH(libraries); i++) {
        size_t length = strlen(libraries[i]);
        if (length && strncmp(file, libraries[i], length) == 0 && file[length] == '/')
            return true;
    }
    return false;
}

/* The module that calls the application, as Perl names its file. */
static const char *worker_file(void) {
    dTHX;
    HV *loaded = get_hv("INC", 0);
    SV **path = loaded ? hv_fetchs(loaded, "Howdah/Worker.pm", 0) : NULL;
    return path && SvPOK(*path) ? SvPVX_const(*path) : "";
}

/* The server's modules are libraries, too, wherever they are installed. */
static bool beside(const char *file, const char *other) {
    const char *slash = strrchr(other, '/');
    return slash && strncmp(file, other, slash + 1 - other) == 0;
}

static U32 bucket_of(const char *file, U32 line) {
    U32 hash = line * 2654435761u;
    for (; *file; file++)
        hash = (hash ^ (U8)*file) * 16777619u;
    return hash % BUCKETS;
}

static bool grow(void) {
    U32 wanted = room ? room * 2 : 256;
    struct place *larger = count < room ? places : realloc(places, wanted * sizeof *places);
    if (!larger)
        return false;
    room = count < room ? room : wanted;
    places = larger;
    return true;
}

/* Perl numbers the strings that it evaluates, so each is another file, though one line may evaluate all of them. */
static const char *shown(const char *file) {
    const size_t begin = sizeof "(eval " - 1;
    bool is_string =
        strncmp(file, "(eval ", begin) == 0 && strEQ(file + begin + strspn(file + begin, "0123456789"), ")");
    return is_string ? "(eval)" : file;
}

U32 hd_place_of(const char *named, U32 line) {
    const char *file = shown(named);
    U32 bucket = bucket_of(file, line);
    for (U32 at = buckets[bucket]; at; at = places[at].next)
        if (places[at].line == line && strEQ(places[at].file, file))
            return at;
    char *name = count < MOST_PLACES && grow() ? strdup(file) : NULL;
    if (!name)
        return 0;
    const char *worker = worker_file();
    const bool library = in_library(name) || beside(name, worker);
    places[count] = (struct place){name, line, buckets[bucket], library, strEQ(name, worker)};
    return buckets[bucket] = count++;
}

U32 hd_place(const COP *cop) {
    const char *named = CopFILE(cop);
    if (!named)
        return 0;
    const char *file = shown(named);
    size_t at = (PTR2UV(cop) >> 3) % KEPT;
    U32 place = kept[at].cop == cop ? kept[at].place : 0;
    if (place && places[place].line == CopLINE(cop) && strEQ(places[place].file, file))
        return place;
    kept[at].cop = cop;
    return kept[at].place = hd_place_of(file, CopLINE(cop));
}

bool hd_is_library(U32 place) { return !place || places[place].library; }

bool hd_is_outermost(U32 place) { return place && places[place].outermost; }

const char *hd_place_file(U32 place) { return place ? places[place].file : ""; }

U32 hd_place_line(U32 place) { return place ? places[place].line : 0; }
