# The point of the shared segment: under load a busy worker makes next to no system call per request, and the front
# two (read and write) besides its share of epoll. Counted by strace.
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

# System calls of a process, by name, while wrk keeps 64 connections busy; and the number of requests.
sub counted {
    my $pid    = shift;
    my $dir    = File::Temp->newdir;
    my $tracer = fork // die "cannot fork: $!";
    if (!$tracer) {
        open STDERR, '>', "$dir/trouble" or die $!;
        exec $strace, '-c', '-f', '-o', "$dir/counts", '-p', $pid or die $!;
    }
    sleep 0.5;
    my $report = qx($wrk -t1 -c64 -d3s ${\$server->url}/);
    kill INT => $tracer;
    waitpid $tracer, 0;
    my ($requests) = $report =~ /(\d+) requests in/;
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
    return $sum / ($requests || 1);
}

sub told {
    my ($requests, $calls) = @_;
    return "$requests requests: " . join ', ', map { "$_ $calls->{$_}" } sort keys %$calls;
}

my ($requests, $calls) = counted($worker);
plan skip_all => 'strace may not attach here' if !$calls || !%$calls;
note 'worker: ', told($requests, $calls);
cmp_ok per_request($requests, $calls), '<', 0.3, 'system calls of a busy worker per request';

($requests, $calls) = counted($server->pid);
note 'front: ', told($requests, $calls);
my @transfer = qw(read recvfrom readv recvmsg write sendto writev sendmsg);
cmp_ok per_request($requests, $calls, @transfer), '<', 2.3, 'reads and writes of the front per request';
cmp_ok per_request($requests, $calls), '<', 3, 'with its share of epoll and wake-ups';

done_testing;
