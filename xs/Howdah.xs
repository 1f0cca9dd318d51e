/* The doors between Perl and the C files; see Howdah::XS for what each is for. */
#include "howdah.h"
#include "control.h"
#include "script.h"

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
    CONSTANT(ENDED_BY_DEATH);
    CONSTANT(ENDED_BY_EXEC);
    CONSTANT(ENDED_BY_ITSELF);
    CONSTANT(LEFT_HANDLERS);
    CONSTANT(LEFT_DESCRIPTORS);
    CONSTANT(LEFT_CHILDREN);
    CONSTANT(ZYGOTE_TITLES);
    CONSTANT(ZYGOTE_ERRORS);
    hd_prepare_errors();
    hd_prepare_exec(aTHX);

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
    const char *bytes = hd_utf8(aTHX_ text, &length);
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

void
unblock_signals()
  CODE:
    hd_unblock_signals();

void
settle_streams()
  CODE:
    hd_settle_streams(aTHX);

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

bool
run(SV *app)
  CODE:
    hd.app = app;
    RETVAL = hd_run(aTHX);
  OUTPUT:
    RETVAL

int
count_threads()
  CODE:
    RETVAL = hd_count_threads();
  OUTPUT:
    RETVAL

bool
has_object(SV *class)
  CODE:
    RETVAL = hd_has_object(aTHX_ class);
  OUTPUT:
    RETVAL

const char *
left_by_fork()
  CODE:
    RETVAL = hd_left_by_fork();
  OUTPUT:
    RETVAL

AV *
channels()
  CODE:
    RETVAL = (AV *)sv_2mortal((SV *)newAV());
    for (int i = 0; i < hd.fronts; i++)
        av_push(RETVAL, newSViv(hd.channels[i]));
  OUTPUT:
    RETVAL

void
refuse_promotion(const char *why)
  CODE:
    hd_refuse_promotion(why);

int
promote()
  CODE:
    RETVAL = hd_promote(aTHX);
  OUTPUT:
    RETVAL

void
renew()
  CODE:
    hd_renew(aTHX);

void
track_leaks()
  CODE:
    hd_track_always();

bool
is_tracking()
  CODE:
    RETVAL = hd_is_tracking();
  OUTPUT:
    RETVAL

SV *
leaks()
  CODE:
    RETVAL = hd_tell_leaks(aTHX);
  OUTPUT:
    RETVAL

int
CLONE_SKIP(...)
  CODE:
    PERL_UNUSED_VAR(items);
    hd_count_thread();
    hd_keep_input(aTHX); /* a new thread would read the memory of the slot when that is another request's */
    RETVAL = 0;
  OUTPUT:
    RETVAL

void
say_last_words()
  CODE:
    hd_say_last_words();

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
hold_interrupts()
  CODE:
    hd_hold_interrupts(aTHX);

void
tell_place(...)
  CODE:
    PERL_UNUSED_VAR(items);
    hd_tell_place(aTHX);

void
abandon()
  CODE:
    hd_abandon(aTHX_ "it called exit; the worker leaves");

void
exit_now(int status)
  CODE:
    PerlIO_flush(NULL);
    _exit(status);

void
leave_root()
  CODE:
    hd_leave_root(aTHX);

AV *
groups_of(const char *name, UV primary)
  CODE:
    RETVAL = hd_groups_of(aTHX_ name, primary);
  OUTPUT:
    RETVAL

void
give_up_capabilities()
  CODE:
    hd_give_up_capabilities(aTHX);

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

void
complain(SV *message)
  CODE:
    hd_complain(aTHX_ message);

void
redirect(SV *path)
  CODE:
    hd_redirect(aTHX_ path);

void
prepare_scripts()
  CODE:
    hd_prepare_scripts(aTHX);

UV
run_script(SV *code, bool interruptible = false, bool again = false)
  CODE:
    RETVAL = hd_run_script(aTHX_ code, interruptible, again);
  OUTPUT:
    RETVAL

void
enter_script()
  CODE:
    hd_enter_script(aTHX);

AV *
take_ends(const char *file, const char *package)
  CODE:
    RETVAL = (AV *)sv_2mortal((SV *)hd_take_ends(aTHX_ file, package));
  OUTPUT:
    RETVAL

void
name_script(SV *name)
  CODE:
    SV *zero = get_sv("0", GV_ADD);
    sv_setsv(zero, name); /* without its magic, which would write the title of the process */

void
point_output()
  CODE:
    hd_point_output(aTHX);

void
adopt_output()
  CODE:
    hd_adopt_output(aTHX);

bool
output_is_whole()
  CODE:
    RETVAL = hd_output_is_whole(aTHX);
  OUTPUT:
    RETVAL

bool
has_threads()
  CODE:
    RETVAL = hd_has_threads();
  OUTPUT:
    RETVAL

void
catch_output()
  CODE:
    hd_catch_output(aTHX);

SV *
caught_output()
  CODE:
    RETVAL = hd_caught_output(aTHX);
  OUTPUT:
    RETVAL

void
begin_output(SV *answer, SV *first)
  CODE:
    hd_begin_output(aTHX_ answer, first);

SV *
end_output()
  CODE:
    RETVAL = hd_end_output(aTHX);
  OUTPUT:
    RETVAL

bool
renew_output()
  CODE:
    RETVAL = hd_renew_output(aTHX);
  OUTPUT:
    RETVAL

void
point_stdin()
  CODE:
    hd_point_stdin(aTHX);

bool
stdin_is_whole()
  CODE:
    RETVAL = hd_stdin_is_whole(aTHX);
  OUTPUT:
    RETVAL

HV *
request_variables(HV *fixed, HV *env, HV *hidden, HV *wanted)
  CODE:
    RETVAL = hd_request_variables(aTHX_ fixed, env, hidden, wanted);
  OUTPUT:
    RETVAL

void
set_variables(HV *wanted)
  CODE:
    hd_set_variables(aTHX_ wanted);

AV *
set_values(AV *pairs)
  CODE:
    RETVAL = hd_set_values(aTHX_ pairs);
  OUTPUT:
    RETVAL

SV *
file_version(const char *name)
  CODE:
    RETVAL = hd_file_version(aTHX_ name);
  OUTPUT:
    RETVAL

void
set_stdin(SV *bytes)
  CODE:
    hd_set_stdin(aTHX_ bytes);

void
pass_stdin(int fd)
  CODE:
    hd_pass_stdin(aTHX_ fd);

void
point_errors()
  CODE:
    hd_point_errors();

void
adopt_errors()
  CODE:
    hd_adopt_errors(aTHX);

bool
errors_are_whole()
  CODE:
    RETVAL = hd_errors_are_whole(aTHX);
  OUTPUT:
    RETVAL

void
note_settings()
  CODE:
    hd_note_settings(aTHX);

void
restore_settings()
  CODE:
    hd_restore_settings(aTHX);

void
note_process()
  CODE:
    hd_note_process(aTHX);

void
note_handlers()
  CODE:
    hd_note_handlers(aTHX);

bool
end_handlers()
  CODE:
    RETVAL = hd_end_handlers(aTHX);
  OUTPUT:
    RETVAL

UV
restore_process()
  CODE:
    RETVAL = hd_restore_process(aTHX);
  OUTPUT:
    RETVAL

void
note_descriptors()
  CODE:
    hd_note_descriptors();

void
begin_page()
  CODE:
    hd_begin_page(aTHX);

void
note_names()
  CODE:
    hd_note_names(aTHX);

void
restore_names()
  CODE:
    hd_restore_names(aTHX);

void
close_handles(SV *package)
  CODE:
    HV *stash = gv_stashsv(package, 0);
    if (stash)
        hd_close_handles(aTHX_ stash);

MODULE = Howdah::XS    PACKAGE = Howdah::Writer

void
write(SV *self, SV *bytes)
  CODE:
    STRLEN length;
    const char *start = hd_bytes(aTHX_ bytes, &length, "body"); /* which may run code that ends the response */
    hd_check_serial(aTHX_ hd_serial_of(aTHX_ self));
    hd_check_client(aTHX);
    hd_put(aTHX_ start, length);
    hd_tell();
    hd_check_client(aTHX); /* perhaps not all of it found a taker */

void
close(SV *self)
  CODE:
    UV serial = hd_serial_of(aTHX_ self);
    if (serial == hd.now.serial && hd.now.progress == HD_HEAD_OUT) {
        hd_check_serial(aTHX_ serial); /* it may be a thread's copy */
        hd_end_dechunk(aTHX);
        hd_finish(aTHX);
        hd_settle();
    }
