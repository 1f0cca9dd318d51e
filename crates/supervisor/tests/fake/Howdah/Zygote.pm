package Howdah::Zygote;
use strict;
use warnings;

# A zygote for the supervisor's tests: it speaks as the real one does, but its application is a file of a few words:
#
#     die MESSAGE      it does not load
#     exit STATUS      the zygote ends without a word while it loads
#     slow SECONDS     loading takes so long
#     babble           the zygote says what is no report before it is ready
#     crash STATUS     workers exit before they are ready
#     stays            the zygote does not leave when it is told to
#     mortal SECONDS   the zygote ends so long after it has forked a worker
#     frail SECONDS    workers exit so long after they are ready
#     late SECONDS     workers take so long to be ready
#     stubborn         workers do not leave when asked
#     linger SECONDS   workers take so long to leave
#     serve RATE       workers pretend to serve so many requests a second
#     threads          it is a host: its workers are threads, or so it says
#     claim PID        it says that this process is each of its workers
#     deaf             it does not end a worker that it is told to end
#
# Workers find the segment as a file under /proc and keep their cell as the C side would.

use File::Basename qw(dirname);
use POSIX ();
use Time::HiRes qw(sleep time);

use Howdah::FakeProtocol ();
require(dirname(__FILE__) . '/../../../../../lib/Howdah/ZygoteSpec.pm');

# Offsets in the worker cell.
use constant {PHASE => 0, PID => 4, LEAVE => 12, REQUESTS => 16, COMMAND => 44, QUOTA => 56};
use constant LIFETIME => 60;

my $protocol = 'Howdah::FakeProtocol';
my (%spec, %app, $control, $segment, %children, %threads, $stopping, $born);

sub main {
    %spec = Howdah::ZygoteSpec->read(delete $ENV{HOWDAH_ZYGOTE});
    open $control, '+<&=', $spec{control} or die "control: $!";
    alarm LIFETIME;
    my ($kind) = order();
    die 'the first order is no attach' if $kind != $protocol->number('ZYGOTE_ORDER_ATTACH');
    load();
    send $control, 'nonsense', 0 if exists $app{babble};
    report('READY');
    serve();
    POSIX::_exit(0);
}

sub load {
    open my $file, '<', $spec{app} or fail("no $spec{app}");
    local $/;
    %app = map { /^(\w+) ?(.*)/ } split /\n/, <$file>;
    sleep $app{slow} if $app{slow};
    POSIX::_exit($app{exit}) if defined $app{exit};
    fail($app{die}) if defined $app{die};
    return;
}

sub fail {
    report('FAILED', text => "$_[0]\n");
    POSIX::_exit(1);
}

sub report {
    my ($kind, %with) = (shift, worker => 0, pid => 0, status => 0, text => '', @_);
    my $number = $protocol->number("ZYGOTE_REPORT_$kind");
    return send $control, $protocol->write_report($number, @with{qw(worker pid status text)}), 0;
}

# Perl's recv throws descriptors away, so their number is taken from the order.
sub order {
    recv $control, my $packet, 65536, 0;
    return if !length $packet;
    my @order = $protocol->read_order($packet, unpack 'x4 L', $packet) or die 'no order';
    return @order;
}

sub serve {
    until ($stopping && !%children && !%threads) {
        reap();
        POSIX::_exit(0) if $app{mortal} && $born && time > $born + $app{mortal};
        tend($_) for keys %threads;
        my $ready = '';
        vec($ready, fileno $control, 1) = 1;
        next if select($ready, undef, undef, 0.005) <= 0;
        my ($kind, $worker, undef, $signal) = order() or last;
        $stopping = !exists $app{stays} if $kind == $protocol->number('ZYGOTE_ORDER_STOP');
        spawn($worker) if $kind == $protocol->number('ZYGOTE_ORDER_SPAWN');
        next if $kind != $protocol->number('ZYGOTE_ORDER_SIGNAL') || $signal != POSIX::SIGKILL();
        end_thread($worker, $signal) if $threads{$worker} && !exists $app{deaf};
    }
    kill KILL => keys %children;
    return;
}

sub reap {
    while ((my $pid = waitpid -1, POSIX::WNOHANG()) > 0) {
        my $status = $?;
        my $index  = delete $children{$pid};
        report('EXITED', worker => $index, pid => $pid, status => $status);
    }
    return;
}

sub spawn {
    my $index = shift;
    return begin_thread($index) if exists $app{threads};
    my $pid = fork // die "fork: $!";
    work($index) if !$pid;
    $children{$pid} = $index;
    $born //= time;
    return report('SPAWNED', worker => $index, pid => $app{claim} // $pid);
}

# The cell of a worker that is a thread.
sub cell_of {
    my $index = shift;
    my ($path, $cells, $size) = split /,/, $spec{name};
    $segment || open $segment, '+<:unix', $path or POSIX::_exit(99);
    return $cells + $index * $size;
}

sub begin_thread {
    my $index = shift;
    $threads{$index} = 1;
    report('SPAWNED', worker => $index, pid => $$);
    put(cell_of($index) + PID, 'L', $$);
    return put(cell_of($index) + PHASE, 'L', $protocol->number('WORKER_PHASE_IDLE'));
}

sub tend {
    my $index = shift;
    return if !get(cell_of($index) + COMMAND, 'L') || exists $app{stubborn};
    put(cell_of($index) + LEAVE, 'L', $protocol->number('LEAVE_DRAINED'));
    put(cell_of($index) + PHASE, 'L', $protocol->number('WORKER_PHASE_LEAVING'));
    return end_thread($index, 0);
}

sub end_thread {
    my ($index, $status) = @_;
    delete $threads{$index};
    return report('EXITED', worker => $index, pid => $$, status => $status);
}

# Never returns.
sub work {
    my $index = shift;
    close $control;
    alarm LIFETIME;
    my ($path, $cells, $size) = split /,/, $spec{name};
    open $segment, '+<:unix', $path or POSIX::_exit(99);
    my $cell = $cells + $index * $size;
    put($cell + PID, 'L', $$);
    sleep $app{late} if $app{late};
    POSIX::_exit($app{crash}) if defined $app{crash};
    put($cell + PHASE, 'L', $protocol->number('WORKER_PHASE_IDLE'));
    my $quota = get($cell + QUOTA, 'Q');
    my ($began, $requests) = (time, 0);

    until ($quota && $requests >= $quota) {
        sleep 0.002;
        POSIX::_exit(3) if $app{frail} && time > $began + $app{frail};
        if ($app{serve}) {
            $requests = int +(time - $began) * $app{serve};
            put($cell + REQUESTS, 'Q', $requests);
        }
        leave($cell, 'DRAINED') if get($cell + COMMAND, 'L') && !exists $app{stubborn};
    }
    return leave($cell, 'QUOTA');
}

sub leave {
    my ($cell, $reason) = @_;
    put($cell + LEAVE, 'L', $protocol->number("LEAVE_$reason"));
    put($cell + PHASE, 'L', $protocol->number('WORKER_PHASE_LEAVING'));
    sleep $app{linger} if $app{linger};
    return POSIX::_exit(0);
}

sub get {
    my ($at, $type) = @_;
    sysseek $segment, $at, 0;
    sysread $segment, my $bytes, length pack $type, 0;
    return unpack $type, $bytes;
}

sub put {
    my ($at, $type, $value) = @_;
    sysseek $segment, $at, 0;
    return syswrite $segment, pack $type, $value;
}

1;
