/*
 * What a change of user leaves with a process though it is root's. Howdah::Privileges has it given up around such a change; the host
 * of scripts does the same in crates/sys/src/privileges.rs.
 */
#include "howdah.h"
#include "control.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A user has no more groups: the kernel's own limit. */
#define MOST_GROUPS 65536

/*
 * Who has a session keyring may read what is in it, whoever that is: tickets of Kerberos, keys of file systems. It is exchanged for one
 * that is empty, while root's quota counts for it. A kernel or container without this call gives nobody a key.
 */
static void leave_keyring(pTHX) {
    if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0 && (errno == EDQUOT || errno == ENOMEM))
        croak("cannot leave the session keyring of root: %s", strerror(errno));
}

/* A terminal that standard output leads to is open for reading, too: what root types there is root's. */
static void only_write(int fd) {
    if ((fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDWR || !isatty(fd))
        return;
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int terminal = open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC);
    if (terminal < 0)
        return;
    dup2(terminal, fd);
    close(terminal);
}

/* Under plackup, from which the zygote has its standard input, that may be the terminal, too. */
static void read_nothing(void) {
    int nothing = isatty(STDIN_FILENO) ? open("/dev/null", O_RDONLY | O_CLOEXEC) : -1;
    if (nothing < 0)
        return;
    dup2(nothing, STDIN_FILENO);
    close(nothing);
}

/* The groups of a user, as login gives them, `primary` among them. The list of all groups need not have them: of a directory (LDAP,
 * SSSD) it mostly has none. */
AV *hd_groups_of(pTHX_ const char *name, UV primary) {
    AV *found = (AV *)sv_2mortal((SV *)newAV());
    int count = MOST_GROUPS;
    gid_t *groups = (gid_t *)SvPVX(sv_2mortal(newSV(MOST_GROUPS * sizeof *groups)));
    int all = getgrouplist(name, primary, groups, &count);
    for (int at = 0; at < all; at++)
        av_push(found, newSVuv(groups[at]));
    return found;
}

void hd_leave_root(pTHX) {
    leave_keyring(aTHX);
    read_nothing();
    only_write(STDOUT_FILENO);
    only_write(STDERR_FILENO);
}

/* Behind the change. Where root is told to keep them over it (SECBIT_NO_SETUID_FIXUP; systemd's SecureBits=), that was for the server. */
void hd_give_up_capabilities(pTHX) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {{0}};
    if (syscall(SYS_capget, &header, sets) < 0 || !(sets[0].permitted | sets[1].permitted))
        return;
    Zero(sets, _LINUX_CAPABILITY_U32S_3, struct __user_cap_data_struct);
    if (syscall(SYS_capset, &header, sets) < 0)
        croak("cannot give up the capabilities of root: %s", Strerror(errno));
}
