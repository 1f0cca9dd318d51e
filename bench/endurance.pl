#!/usr/bin/env perl

# Traffic of all kinds for as long as is wanted, while workers, zygotes and launchers are killed, the application is loaded
# anew and the server replaces itself: whether each request has one right answer and one line in the access log, and
# whether anything grows.
#
#   perl bench/endurance.pl [--minutes 60] [--round 30] [--seed N] [--workers 6] [--disturb kill,zygote,launcher,reload,upgrade,workers]
#       [-- options of howdah]
#
# Two servers, one of them by TLS. In each round both are asked on kept and on new connections, with pipelining, by
# HTTP/2, for responses that go out by the ring, by loan and by the spool, and by clients that leave midway. Then all
# clients leave, and what there is then is printed, a line for each server. The status is 1 when something was wrong, or
# has grown since the third round.
use strict;
use warnings;

use FindBin ();
use lib "$FindBin::Bin/../t/lib";

use Getopt::Long qw(GetOptions);
use Howdah::Test::File qw(read_if_any);
use Howdah::Test::Load;
use Howdah::Test::Operator;
use Howdah::Test::Process qw(EVERY_GENERATION descendants titled);
use Howdah::Test::Server;
use Howdah::Test::StreamLoad;
use Howdah::Test::Tls;
use IO::Socket::INET ();
use List::Util qw(sum0);
use POSIX ();
use Time::HiRes qw(sleep time);

chdir "$FindBin::Bin/.." or die $!;
my %wish = (
    minutes => 60, round => 30, seed => time % 100_000, workers => 6,
    disturb => 'kill,zygote,launcher,reload,upgrade,workers'
);
GetOptions(\%wish, qw(minutes=f round=i seed=i workers=i disturb=s)) or exit 2;
die "--round is at most 90 seconds\n" if $wish{round} > 90;
alarm 0;
$| = 1;    ## no critic (RequireLocalizedPunctuationVars)
srand $wish{seed};

# Growth that is none: the allocator's, a descriptor that is just being closed.
use constant {DESCRIPTORS => 6, KIB => 8_192, FIRST => 3};

# What is done to a server now and then, each with the number of requests that it may cost.
my %disturb = (
    kill => sub { my $it = shift; my @all = $it->processes('worker'); return @all ? kill KILL => $all[rand @all] : 0 },
    zygote   => sub { my $it = shift; kill KILL => $it->processes('zygote'); return 0 },
    launcher => sub { my $it = shift; my @all = $it->processes('launcher'); kill KILL => $all[0] if @all; return 0 },
    reload   => sub { return $_[0]->ask('reload') },
    upgrade  => sub { return $_[0]->ask('upgrade') },

    # Of the application that all are asked for, whatever else is served by the options.
    workers => sub {
        my @pool = ('--pool', '/');
        return $_[0]->ask('workers', rand > 0.5 ? '+2' : '-2', @pool) || $_[0]->ask('workers', $wish{workers}, @pool);
    },
);
my @disturb = map { $disturb{$_} // die "--disturb knows @{[sort keys %disturb]}, not $_\n" } split /,/, $wish{disturb};

my @subjects = map { Subject->start($_, \%wish, @ARGV) } Howdah::Test::Tls->is_installed ? (0, 1) : 0;
printf "seed %d; pids %s\n", $wish{seed}, join ' ', map { $_->pid } @subjects;
my $end = time + 60 * $wish{minutes};
for (my $round = 1 ; time < $end ; $round++) {
    $_->begin for @subjects;
    my $until = time + $wish{round};
    while (time < $until) {
        sleep 0.2 + rand 2;
        my $subject = $subjects[rand @subjects];
        $subject->{allowed} += $disturb[rand @disturb]->($subject) if @disturb;
    }
    $_->quiet for @subjects;
    $_->finish($round) for @subjects;
}
my $wrong = sum0(map { $_->stop } @subjects);
print $wrong ? "$wrong things were wrong\n" : "nothing was wrong\n";
exit($wrong ? 1 : 0);

package Subject;    ## no critic (ProhibitMultiplePackages)

# One server, those who ask it, and what it has come to.
sub start {
    my ($class, $secure, $wish, @options) = @_;
    my $operator = Howdah::Test::Operator->new;
    my $self     = bless {secure => $secure, operator => $operator, wrong => 0}, $class;
    mkdir $operator->dir . '/tmp' or die $!;
    local $ENV{TEST_OVER_TLS} = $secure;
    $self->{server} = Howdah::Test::Server->start(
        file    => 't/apps/load.psgi',
        env     => {TMPDIR => $operator->dir . '/tmp'},
        options => [
            $operator->options, '--workers', $wish->{workers}, '--access-log', $self->access_log,
            '--access-log-format', '%>s %U',
            '--max-queue', 1000, '--graceful-timeout', '20s', @options
        ],
    );
    return $self;
}

sub access_log { return $_[0]{operator}->dir . '/access' }
sub pid { return $_[0]{operator}->pid }
sub name { return $_[0]{secure} ? 'TLS' : 'plain' }

sub processes {
    my ($self, $role) = @_;
    return main::titled($role, main::descendants(2, $self->pid));
}

# A command to the server must succeed; what it costs: nothing.
sub ask {
    my ($self, @command) = @_;
    my ($status, undef, $why) = $self->{operator}->ask(@command);
    $self->complain("howdah @command: $why") if $status;
    return 0;
}

sub complain {
    my ($self, @what) = @_;
    $self->{wrong} += @what;
    printf "%s %s: %s\n", scalar localtime, $self->name, $_ for splice @what, 0, 5;
    return;
}

sub begin {
    my $self = shift;
    local $ENV{TEST_OVER_TLS} = $self->{secure};
    my $server = $self->{server};
    $self->{allowed} = 0;
    $self->{load}    = [
        Howdah::Test::Load->start($server, connections => 8),
        Howdah::Test::Load->start($server, connections => 3, pipeline => 5),
        Howdah::Test::Load->start($server, connections => 3, fresh    => 1),
        Howdah::Test::Load->start($server, connections => 2, pad      => 100_000),
        Howdah::Test::Load->start($server, connections => 2, pad      => 3_000_000),
        Howdah::Test::StreamLoad->start($server, connections => 3, streams => 10),
    ];
    $self->{leavers} = fork // die "cannot fork: $!";
    $self->leave_midway if !$self->{leavers};
    return;
}

# Asks and does not wait for the end. Those requests are called 0-N, and are not looked for in the log.
sub leave_midway {
    my $self = shift;
    my $port = $self->{server}->port;
    my $go   = 1;
    local $SIG{TERM} = sub { $go = 0 };
    local $SIG{PIPE} = 'IGNORE';
    for (my $id = 1 ; $go ; $id++) {
        my $socket =
            $self->{secure}
            ? Howdah::Test::Tls::connect_to($port)
            : IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port);
        next if !$socket;
        my $request = sprintf "POST /0-%d?%d HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", $id,
            $id % 3 * 1_000_000, 70_000, 'x' x 70_000;
        $socket->syswrite($request, $id % 5 ? length $request : rand 70_000);
        Time::HiRes::sleep(rand 0.1);
        $socket->sysread(my $some, 10_000) if $id % 5 && $id % 2;
    }
    POSIX::_exit(0);
}

# No more requests.
sub quiet {
    my $self = shift;
    $_->stop for @{$self->{load}};
    kill TERM => $self->{leavers};
    waitpid delete $self->{leavers}, 0;
    return;
}

sub finish {
    my ($self, $round) = @_;
    my @results = map { $_->finish } @{delete $self->{load}};
    $self->complain(map { @{$_->{problems}} } @results);
    my %seen = map { %{$_->{seen}} } @results;
    my %status;
    $status{$_}++ for values %seen;
    my $lost = List::Util::sum0(map { $_ // 0 } @status{qw(502 cut)});
    $self->complain("$lost requests were lost by $self->{allowed} kills") if $lost > $self->{allowed};
    $self->complain("status $_: $status{$_}") for grep { !/^(?:200|502|cut)$/ } sort keys %status;
    $self->compare_log(\%seen);

    my $now = $self->settled;
    $self->compare($now) if $round > main::FIRST;
    $self->{first} = $now if $round == main::FIRST;
    printf "%s round %d, %s: %d requests, %d lost by %d kills; %s\n", scalar localtime, $round, $self->name,
        scalar keys %seen, $lost, $self->{allowed}, join ', ', map { "$now->{$_} $_" } sort keys %$now;
    return;
}

# The log of the round is put aside, as a rotation would. A response that was cut short had begun with 200.
sub compare_log {
    my ($self, $seen) = @_;
    my %times;
    $times{($seen->{$_} eq 'cut' ? 200 : $seen->{$_}) . " /$_"}++ for keys %$seen;
    Time::HiRes::sleep(2);
    rename $self->access_log, $self->access_log . '.old' or return $self->complain("no access log: $!");
    $self->ask('reopen');
    open my $in, '<', $self->access_log . '.old' or return $self->complain("no access log: $!");
    while (my $line = <$in>) {
        chomp $line;
        $times{$line}-- if $line !~ m{ /0-};
    }
    my @differ = grep { $times{$_} } sort keys %times;
    $self->complain(map { "the access log has $_ too " . ($times{$_} > 0 ? 'rarely' : 'often') } @differ);
    return;
}

# What there is once nobody asks, and whoever was to leave has left.
sub settled {
    my $self = shift;
    my ($now, $before) = ({}, '');
    for (1 .. 60) {
        Time::HiRes::sleep(0.5);
        $now = $self->count;
        my $text = join ' ', @$now{qw(descriptors processes)};
        last if $text eq $before && $now->{processes} == ($self->{first} // $now)->{processes};
        $before = $text;
    }
    return $now;
}

sub count {
    my $self    = shift;
    my $pid     = $self->pid;
    my @open    = glob "/proc/$pid/fd/*";
    my ($kib)   = main::read_if_any("/proc/$pid/status") =~ /^RssAnon:\s+(\d+)/m;
    my ($files) = scalar(my @all = glob $self->{operator}->dir . '/tmp/*');
    return {
        descriptors => scalar @open,
        processes   => scalar(main::descendants(main::EVERY_GENERATION, $pid)),
        KiB         => $kib,
        files       => $files,
    };
}

sub compare {
    my ($self, $now) = @_;
    my $first = $self->{first};
    my %more  = (descriptors => main::DESCRIPTORS, processes => 0, KiB => main::KIB, files => 0);
    $self->complain(
        map { "$_: $now->{$_}, which were $first->{$_}" }
        grep { $now->{$_} > $first->{$_} + $more{$_} } sort keys %more
    );
    return;
}

# How much was wrong in all.
sub stop {
    my $self = shift;
    my $pid  = $self->pid;
    $self->ask('stop');
    $self->complain('it does not end') if !$self->{operator}->wait_for_end($pid);
    my %said;
    $said{s/^\S+ //r}++ for grep { /panicked|written over shared memory/ } split /\n/, $self->{server}->log;
    $self->complain(sort keys %said);
    return $self->{wrong};
}
