/*
 * Whether a CGI script is still the file that was compiled. Called by Howdah::CGI::Place, once for each request.
 */
#include "script.h"

/* What differs when the file does; undef when there is none, for which errno says why. */
SV *hd_file_version(pTHX_ const char *name) {
    struct stat now;
    if (stat(name, &now) != 0)
        return newSV(0);
    const uint64_t version[] = {now.st_dev, now.st_ino, now.st_mode, now.st_uid, now.st_gid, now.st_size, now.st_mtim.tv_sec,
                                now.st_mtim.tv_nsec};
    return newSVpvn((const char *)version, sizeof version);
}
