# The point of the shared segment: under load a busy worker makes next to no system call per request, and the front
# two (read and write) besides its share of epoll. The front's are counted by strace; the worker would be so slow under it that
# every answer finds the front asleep, so its reads, writes and sleeps are those that the kernel counts.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Server;
use Test::More;
use Time::HiRes qw(sleep);

sub program {
    my $name = shift;
    return (grep { -x } map { "$_/$name" } split /:/, $ENV{PATH})[0];
}

my ($strace, $wrk) = (program('strace'), program('wrk'));
plan skip_all => 'needs strace and wrk' if !$strace || !$wrk;

my $server = Howdah::Test::Server->start(app => 'sub { [200, [], ["hello world"]] }', options => ['--workers', 1]);
my ($worker) = $server->workers;

# Requests that wrk has answered in some seconds on 64 connections.
sub load {
    my ($seconds)  = @_;
    my ($requests) = qx($wrk -t1 -c64 -d${seconds}s ${\$server->url}/) =~ /(\d+) requests in/;
    return $requests || 1;
}

# What the kernel has counted of a process: reads, writes and sleeps.
sub counters {
    my ($pid) = @_;
    my $text = '';
    for my $name (qw(io status)) {
        open my $in, '<', "/proc/$pid/$name" or return;
        $text .= join '', <$in>;
    }
    my @counts = $text =~ /^(?:syscr|syscw|voluntary_ctxt_switches):\s*(\d+)/mg;
    return @counts == 3 ? $counts[0] + $counts[1] + $counts[2] : undef;
}

# System calls of a process, by name, under load; and the number of requests.
sub traced {
    my $pid    = shift;
    my $dir    = File::Temp->newdir;
    my $tracer = fork // die "cannot fork: $!";
    if (!$tracer) {
        open STDERR, '>', "$dir/trouble" or die $!;
        exec $strace, '-c', '-f', '-o', "$dir/counts", '-p', $pid or die $!;
    }
    sleep 0.5;
    my $requests = load(3);
    kill INT => $tracer;
    waitpid $tracer, 0;
    open my $in, '<', "$dir/counts" or return;
    my %calls;
    for (<$in>) { $calls{$2} = $1 if /^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$/ && $2 ne 'total' }
    return ($requests, \%calls);
}

sub per_request {
    my ($requests, $calls, @names) = @_;
    my $sum = 0;
    $sum += $calls->{$_} for grep {
        my $name = $_;
        !@names || grep { $_ eq $name } @names
    } keys %$calls;
    return $sum / $requests;
}

sub told {
    my ($requests, $calls) = @_;
    return "$requests requests: " . join ', ', map { "$_ $calls->{$_}" } sort keys %$calls;
}

SKIP: {
    my $before   = counters($worker) // skip 'the kernel does not tell', 1;
    my $requests = load(2);
    cmp_ok + (counters($worker) - $before) / $requests, '<', 0.3,
        'reads, writes and sleeps of a busy worker per request';
}

my ($requests, $calls) = traced($server->pid);
if (!$calls || !%$calls) { note 'strace may not attach here'; done_testing; exit }
note 'front: ', told($requests, $calls);
my @transfer = qw(read recvfrom readv recvmsg write sendto writev sendmsg);
cmp_ok per_request($requests, $calls, @transfer), '<', 2.3, 'reads and writes of the front per request';
cmp_ok per_request($requests, $calls), '<', 3, 'with its share of epoll and wake-ups';

done_testing;
