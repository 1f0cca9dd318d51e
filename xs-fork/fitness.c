/*
 * Whether a compiled script can be forked, and what its descriptors become in each process. A process of its own has
 * descriptors whose offset nobody else moves, so each file is opened anew. What cannot be had anew for each request, as
 * a connection or a thread, makes the script unfit: the host executes it then, and says why in the log.
 */
#include "fork.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static struct stat standard[3];
static struct stat inherited[HF_MOST_DESCRIPTORS];
static int inherited_count;
static char reason[160];

/* Calls `look` with each of the script's descriptors until it returns a reason, and returns that. */
static const char *each_descriptor(const char *(*look)(int fd)) {
    DIR *directory = opendir("/proc/self/fd");
    const char *found = NULL;
    struct dirent *entry;
    if (!directory)
        return "its descriptors cannot be seen: there is no /proc";
    while (!found && (entry = readdir(directory))) {
        int fd = atoi(entry->d_name);
        if (*entry->d_name != '.' && fd != dirfd(directory) && fd != hf.control && fd != hf.life && fd != hf.output)
            found = look(fd);
    }
    closedir(directory);
    return found;
}

/* What the host itself was started with, and a script that is executed has, too. */
static const char *note_inherited(int fd) {
    if (inherited_count < HF_MOST_DESCRIPTORS && fstat(fd, &inherited[inherited_count]) == 0)
        inherited_count++;
    return NULL;
}

static bool is_same(const struct stat *one, const struct stat *other) {
    return one->st_dev == other->st_dev && one->st_ino == other->st_ino;
}

static bool is_inherited(const struct stat *found) {
    for (int at = 0; at < inherited_count; at++)
        if (is_same(found, &inherited[at]))
            return true;
    return false;
}

static void make(pTHX_ int number, int fd) {
    if (fd < 0 || dup2(fd, number) < 0)
        croak("cannot make standard input and output of a script's zygote: %s", strerror(errno));
    close(fd);
}

/* While the script is compiled it finds an empty input, and its output is kept. Both can be told from any other file. */
void hf_open_standard(pTHX) {
    make(aTHX_ 0, memfd_create("input", MFD_CLOEXEC));
    make(aTHX_ 1, memfd_create("output", MFD_CLOEXEC));
    hf.output = fcntl(1, F_DUPFD_CLOEXEC, hf.control);
    for (int number = 0; number < 3; number++)
        fstat(number, &standard[number]);
    each_descriptor(note_inherited);
}

static const char *because(const char *what) {
    snprintf(reason, sizeof reason, "%s while it is compiled", what);
    return reason;
}

static const char *descriptor_reason(int fd, const char *what) {
    snprintf(reason, sizeof reason, "it has %s at descriptor %d once it is compiled", what, fd);
    return reason;
}

/* What the kernel calls something that has no file, as anon_inode:[eventpoll]: event loops have that. */
static const char *named_reason(int fd) {
    char path[32], name[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(path, name, sizeof name - 1);
    if (length < 0)
        return descriptor_reason(fd, "something that is no file");
    name[length] = '\0';
    return descriptor_reason(fd, name);
}

static int count_entries(const char *path) {
    DIR *directory = opendir(path);
    int count = 0;
    while (directory && readdir(directory))
        count++;
    if (directory)
        closedir(directory);
    return count - 2; /* . and .. */
}

static bool has_children(void) {
    siginfo_t info;
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

static bool has_alarm(void) {
    struct itimerval timer;
    return getitimer(ITIMER_REAL, &timer) == 0 && timerisset(&timer.it_value);
}

/* 0 to 2 when it is, or is a copy of, what was there before the script; else -1. */
static int which_standard(const struct stat *found) {
    for (int number = 0; number < 3; number++)
        if (is_same(found, &standard[number]))
            return number;
    return -1;
}

static bool can_be_opened(const struct stat *found) {
    return S_ISREG(found->st_mode) || S_ISDIR(found->st_mode) || S_ISCHR(found->st_mode);
}

static bool opens(const struct hf_descriptor *descriptor) {
    int fd = hf_open_again(descriptor);
    return fd >= 0 && close(fd) == 0;
}

static const char *add(int fd) {
    struct stat found;
    if (fstat(fd, &found) != 0)
        return NULL;
    bool stays = !can_be_opened(&found) && which_standard(&found) < 0 && is_inherited(&found);
    if (stays)
        return NULL;
    if (hf.count == HF_MOST_DESCRIPTORS)
        return descriptor_reason(fd, "too many files");
    struct hf_descriptor *descriptor = &hf.descriptors[hf.count++];
    *descriptor = (struct hf_descriptor){.fd = fd,
                                         .standard = which_standard(&found),
                                         .flags = fcntl(fd, F_GETFL),
                                         .close_on_exec = fcntl(fd, F_GETFD) & FD_CLOEXEC,
                                         .position = lseek(fd, 0, SEEK_CUR)};
    if (descriptor->standard >= 0)
        return NULL;
    if (!can_be_opened(&found))
        return S_ISSOCK(found.st_mode) ? descriptor_reason(fd, "a connection") : named_reason(fd);
    return opens(descriptor) ? NULL : descriptor_reason(fd, "a file that cannot be opened again");
}

static bool does_nothing(const OP *op) {
    return op->op_type == OP_ENTER || op->op_type == OP_NEXTSTATE || op->op_type == OP_STUB || op->op_type == OP_NULL;
}

/* As of a script that is all `use`: what it loads has done the whole of its work by now, before there is a request. */
static bool runs_nothing(pTHX) {
    const OP *op = PL_main_start;
    while (op && does_nothing(op))
        op = op->op_next;
    return !op || op->op_type == OP_LEAVE;
}

static bool has_object(pTHX_ const HV *class) {
    for (SV *arena = PL_sv_arenaroot; arena; arena = (SV *)SvANY(arena))
        for (SV *sv = arena + 1, *end = &arena[SvREFCNT(arena)]; sv < end; sv++)
            if (SvTYPE(sv) != (svtype)SVTYPEMASK && SvREFCNT(sv) && SvOBJECT(sv) && SvSTASH(sv) == class)
                return true;
    return false;
}

/* What a script can have: objects, or a module that has a generator for all of the process and is known by its file. */
struct generator {
    const char *name, *file;
};

/* Keys draw a number for each signature, by which they can be found out (CVE-2026-41564); CryptX 0.088 notices the fork. */
static bool has_blind_keys(pTHX) {
    SV *version = get_sv("CryptX::VERSION", 0);
    return version && SvOK(version) && SvNV(version) < 0.088;
}

static bool has_generator(pTHX_ const struct generator *generator) {
    if (generator->file)
        return hv_exists(GvHVn(PL_incgv), generator->file, strlen(generator->file));
    const HV *class = gv_stashpv(generator->name, 0);
    return class && has_object(aTHX_ class);
}

/* A generator that does not notice the fork gives every visitor the same session id. Those of lib/Howdah/Generators.pm. */
static const char *generator_reason(pTHX) {
    static const struct generator generators[] = {
        {"Crypt::PK::DSA", NULL}, {"Crypt::PK::ECC", NULL}, /* the keys */
        {"Data::Entropy::RawSource::CryptCounter", NULL},
        {"Math::GSL::RNG", NULL}, {"Math::GSL::RNG::gsl_rng", NULL},
        {"Math::Prime::Util", "Math/Prime/Util.pm"}, {"Math::Prime::Util::GMP", "Math/Prime/Util/GMP.pm"},
        {"Math::Random::ISAAC", NULL}, {"Math::Random::ISAAC::XS", NULL}, {"Math::Random::MT", NULL},
        {"Math::Random::MT::Auto", NULL}, {"Math::Random::TT800", NULL}, {"Session::Token", NULL},
    };
    for (size_t at = has_blind_keys(aTHX) ? 0 : 2; at < C_ARRAY_LENGTH(generators); at++) {
        if (!has_generator(aTHX_ & generators[at]))
            continue;
        snprintf(reason, sizeof reason, "it has a random number generator, %s %s, once it is compiled",
                 generators[at].file ? "that of" : "an object of", generators[at].name);
        return reason;
    }
    return NULL;
}

/* Why the script cannot be forked; NULL when it can. */
const char *hf_unfit(pTHX) {
    hf.printed = lseek(hf.output, 0, SEEK_END);
    if (count_entries("/proc/self/task") > 1)
        return because("it starts a thread");
    if (has_children())
        return because("it starts a process");
    if (has_alarm())
        return because("it sets an alarm");
    const char *why = each_descriptor(add);
    if (!why)
        why = generator_reason(aTHX);
    return why || !runs_nothing(aTHX) ? why : "nothing of it is left to run once it is compiled";
}
