/* The doors between Perl and the C files; see Howdah::XS for what each is for. */
#include "howdah.h"
#include "control.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#define CONSTANT(name) newCONSTSUB(gv_stashpvs("Howdah::XS", GV_ADD), #name, newSVuv(name))

MODULE = Howdah::XS    PACKAGE = Howdah::XS

PROTOTYPES: DISABLE

BOOT:
    CONSTANT(LEAVE_SIGNAL);
    CONSTANT(LEAVE_EXIT);
    CONSTANT(ZYGOTE_ORDER_ATTACH);
    CONSTANT(ZYGOTE_ORDER_SEGMENT);
    CONSTANT(ZYGOTE_ORDER_SPAWN);
    CONSTANT(ZYGOTE_ORDER_STOP);
    CONSTANT(ZYGOTE_ORDER_SIGNAL);
    CONSTANT(ZYGOTE_REPORT_READY);
    CONSTANT(ZYGOTE_REPORT_FAILED);
    CONSTANT(ZYGOTE_REPORT_SPAWNED);
    CONSTANT(ZYGOTE_REPORT_EXITED);
    CONSTANT(ZYGOTE_REPORT_LOG);
    CONSTANT(ZYGOTE_TITLES);
    CONSTANT(ZYGOTE_ERRORS);

void
attach(int control)
  PPCODE:
    OrderRecord order;
    fcntl(control, F_SETFD, FD_CLOEXEC);
    if (!hd_attach(aTHX_ control, &order))
        XSRETURN_EMPTY;
    mXPUSHu(order.generation);
    mXPUSHu(order.flags & ZYGOTE_TITLES ? 1 : 0);

bool
report(int control, UV kind, SV *text, IV status = 0)
  CODE:
    STRLEN length;
    const char *bytes = SvPVutf8(text, length);
    const ReportRecord report = {.kind = kind, .status = status};
    RETVAL = hd_send_report(control, &report, bytes, length);
  OUTPUT:
    RETVAL

void
read_order(SV *packet, UV descriptors)
  PPCODE:
    STRLEN length;
    const char *bytes = SvPVbyte(packet, length);
    OrderRecord order;
    if (!hd_read_order(&order, bytes, length, descriptors))
        XSRETURN_EMPTY;
    mXPUSHu(order.kind);
    mXPUSHu(order.worker);
    mXPUSHu(order.generation);
    mXPUSHu(order.flags);
    mXPUSHp((const char *)order.secret, sizeof order.secret);

SV *
write_report(UV kind, UV worker, IV pid, IV status, SV *text)
  CODE:
    STRLEN length;
    const char *bytes = SvPVbyte(text, length);
    const ReportRecord report = {.kind = kind, .worker = worker, .pid = pid, .status = status};
    struct iovec parts[2];
    hd_write_report(parts, &report, bytes, length);
    RETVAL = newSVpvn(parts[0].iov_base, parts[0].iov_len);
    sv_catpvn(RETVAL, parts[1].iov_base, parts[1].iov_len);
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
