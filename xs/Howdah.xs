/* The doors between Perl and the C files; see Howdah::XS for what each is for. */
#include "howdah.h"
#include "control.h"

#include <sys/prctl.h>
#include <unistd.h>

MODULE = Howdah::XS    PACKAGE = Howdah::XS

PROTOTYPES: DISABLE

void
map_segment(int fd)
  CODE:
    hd_map_segment(aTHX_ fd);

void
receive(int fd)
  PPCODE:
    AV *fds = (AV *)sv_2mortal((SV *)newAV());
    SV *packet = hd_receive_packet(aTHX_ fd, fds);
    XPUSHs(packet);
    while (av_len(fds) >= 0)
        mXPUSHs(av_shift(fds));

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
clear_children(int fd)
  CODE:
    hd_clear_children(fd);

void
unwatch_children()
  CODE:
    hd_unwatch_children();

void
become_worker(UV index, AV *eventfds, AV *channels)
  CODE:
    hd_become_worker(aTHX_ index, eventfds, channels);

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
take_socket(SV *handle)
  PPCODE:
    SV *unread = sv_2mortal(newSVpvs(""));
    int fd = hd_take_socket(aTHX_ handle, unread);
    EXTEND(SP, 2);
    mPUSHi(fd);
    PUSHs(unread);

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
    hd_put(aTHX_ start, length);
    hd_tell();

void
close(SV *self)
  CODE:
    if (SvUV(SvRV(self)) == hd.now.serial && hd.now.progress == HD_HEAD_OUT) {
        hd_finish();
        hd_settle();
    }
