package Howdah::Zygote;
use strict;
use warnings;

# A zygote for the supervisor's tests: it speaks the real one's words, but its application is a file of a few words:
#
#     die MESSAGE      it does not load
#     exit STATUS      the zygote ends without a word while it loads
#     slow SECONDS     loading takes so long
#     crash STATUS     workers exit before they are ready
#     late SECONDS     workers take so long to be ready
#     stubborn         workers do not leave when asked
#     serve RATE       workers pretend to serve so many requests a second
#
# Workers find the segment as a file under /proc and keep their cell as the C side would.

use JSON::PP ();
use POSIX ();
use Time::HiRes qw(sleep time);

# Offsets in the worker cell.
use constant {PHASE => 0, PID => 4, LEAVE => 12, REQUESTS => 16, COMMAND => 44, QUOTA => 56};
use constant {IDLE => 2, LEAVING => 4, DRAINED => 1, QUOTA_SERVED => 2};
use constant LIFETIME => 60;

my (%wish, %app, $control, $segment, %children, $stopping);

sub main {
    %wish = %{JSON::PP::decode_json(delete $ENV{HOWDAH_ZYGOTE})};
    open $control, '+<&=', $wish{control} or die "control: $!";
    alarm LIFETIME;
    recv $control, my $attach, 65536, 0;
    die "no attach but '$attach'" if $attach !~ /^attach \d+ \d+ [01] -$/;
    load();
    report("ready");
    serve();
    POSIX::_exit(0);
}

sub load {
    open my $file, '<', $wish{app} or fail("no $wish{app}");
    local $/;
    %app = map { /^(\w+) ?(.*)/ } split /\n/, <$file>;
    sleep $app{slow} if $app{slow};
    POSIX::_exit($app{exit}) if defined $app{exit};
    fail($app{die}) if defined $app{die};
    return;
}

sub fail {
    report("failed $_[0]\n");
    POSIX::_exit(1);
}

sub report { return send $control, $_[0], 0 }

sub serve {
    until ($stopping && !%children) {
        reap();
        my $ready = '';
        vec($ready, fileno $control, 1) = 1;
        next if select($ready, undef, undef, 0.005) <= 0;
        my $packet = '';
        recv $control, $packet, 65536, 0;
        last if $packet eq '';
        $stopping = 1 if $packet eq 'stop';
        spawn($1) if $packet =~ /^spawn (\d+) \d+$/;
    }
    kill KILL => keys %children;
    return;
}

sub reap {
    while ((my $pid = waitpid -1, POSIX::WNOHANG()) > 0) {
        my $status = $?;
        my $index  = delete $children{$pid};
        report("exited $index $pid $status");
    }
    return;
}

sub spawn {
    my $index = shift;
    my $pid   = fork // die "fork: $!";
    work($index) if !$pid;
    $children{$pid} = $index;
    return report("spawned $index $pid");
}

# Never returns.
sub work {
    my $index = shift;
    close $control;
    alarm LIFETIME;
    my ($path, $cells, $size) = split /,/, $wish{name};
    open $segment, '+<:unix', $path or POSIX::_exit(99);
    my $cell = $cells + $index * $size;
    put($cell + PID, 'L', $$);
    sleep $app{late} if $app{late};
    POSIX::_exit($app{crash}) if defined $app{crash};
    put($cell + PHASE, 'L', IDLE);
    my $quota = get($cell + QUOTA, 'Q');
    my ($began, $requests) = (time, 0);

    until ($quota && $requests >= $quota) {
        sleep 0.002;
        if ($app{serve}) {
            $requests = int +(time - $began) * $app{serve};
            put($cell + REQUESTS, 'Q', $requests);
        }
        leave($cell, DRAINED) if get($cell + COMMAND, 'L') && !exists $app{stubborn};
    }
    return leave($cell, QUOTA_SERVED);
}

sub leave {
    my ($cell, $reason) = @_;
    put($cell + LEAVE, 'L', $reason);
    put($cell + PHASE, 'L', LEAVING);
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
