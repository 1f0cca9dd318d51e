/* The doors between Perl and the C files; see Howdah::XS for what each is for. */
#include "howdah.h"
#include "control.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

MODULE = Howdah::XS    PACKAGE = Howdah::XS

PROTOTYPES: DISABLE

SV *
attach(int control)
  CODE:
    struct hd_packet packet;
    fcntl(control, F_SETFD, FD_CLOEXEC);
    if (!hd_receive(control, &packet))
        XSRETURN_UNDEF;
    char secret[32];
    int fronts, fields = sscanf(packet.text, "attach %d %*u %*u %31s", &fronts, secret);
    if (fields != 2 || packet.count < 1 + fronts)
        croak("the front began with '%s'", packet.text);
    hd_map_segment(aTHX_ packet.fds[0]);
    close(packet.fds[0]);
    hd_know_fronts(aTHX_ packet.fds + 1, fronts);
    if (packet.count > 1 + fronts) {
        hd_open_errors(aTHX_ packet.fds[1 + fronts], secret);
        close(packet.fds[1 + fronts]);
    }
    RETVAL = newSVpv(packet.text, 0);
  OUTPUT:
    RETVAL

bool
send(int fd, SV *text)
  CODE:
    STRLEN length;
    const char *bytes = SvPVutf8(text, length);
    RETVAL = hd_send_packet(fd, bytes, length);
  OUTPUT:
    RETVAL

int
watch_children()
  CODE:
    RETVAL = hd_watch_children();
  OUTPUT:
    RETVAL

void
prepare(SV *name, bool titles)
  CODE:
    hd_prepare(aTHX_ name, titles);

bool
obey(int control, int ended, SV *before_fork)
  CODE:
    RETVAL = hd_obey(aTHX_ control, ended, SvOK(before_fork) ? before_fork : NULL);
  OUTPUT:
    RETVAL

bool
is_worker()
  CODE:
    RETVAL = hd.cell != NULL;
  OUTPUT:
    RETVAL

UV
index()
  CODE:
    RETVAL = hd.index;
  OUTPUT:
    RETVAL

int
copy_descriptor(int fd)
  CODE:
    RETVAL = fcntl(fd, F_DUPFD_CLOEXEC, 3);
  OUTPUT:
    RETVAL

void
close_descriptor(int fd)
  CODE:
    close(fd);

void
run(SV *app)
  CODE:
    hd.app = app;
    hd_run(aTHX);

void
leave(UV reason)
  CODE:
    hd_leave(reason);

void
interrupt(...)
  CODE:
    PERL_UNUSED_VAR(items);
    hd_interrupt(aTHX);

void
abandon()
  CODE:
    hd_abandon(aTHX);

void
exit_now(int status)
  CODE:
    PerlIO_flush(NULL);
    _exit(status);

void
stay_dumpable()
  CODE:
    prctl(PR_SET_DUMPABLE, 1);

void
arm_socket(SV *handle)
  CODE:
    hd_arm_socket(aTHX_ handle);

void
take_socket(SV *handle)
  CODE:
    hd_take_socket(aTHX_ handle);

IV
buffered(SV *handle)
  CODE:
    RETVAL = hd_buffered(aTHX_ handle);
  OUTPUT:
    RETVAL

void
informational(SV *status, SV *headers = &PL_sv_undef)
  CODE:
    hd_inform(aTHX_ status, headers);

MODULE = Howdah::XS    PACKAGE = Howdah::Writer

void
write(SV *self, SV *bytes)
  CODE:
    STRLEN length;
    hd_check_serial(aTHX_ SvUV(SvRV(self)));
    const char *start = hd_bytes(aTHX_ bytes, &length, "body");
    hd_check_client(aTHX);
    hd_put(aTHX_ start, length);
    hd_tell();
    hd_check_client(aTHX); /* perhaps not all of it found a taker */

void
close(SV *self)
  CODE:
    if (SvUV(SvRV(self)) == hd.now.serial && hd.now.progress == HD_HEAD_OUT) {
        hd_finish(aTHX);
        hd_settle();
    }
