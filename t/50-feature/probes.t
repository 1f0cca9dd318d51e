# Static probes of workers and zygotes: each that xs/probes.h has is noted in the object, with its arguments; and where the kernel
# and bpftrace allow it, they tell of requests and workers.
use strict;
use warnings;
use lib 't/lib';

use Cwd qw(abs_path);
use File::Temp ();
use Howdah::Test::Client;
use Howdah::Test::File qw(read_file);
use Howdah::Test::Server;
use POSIX qw(WNOHANG);
use Test::More;

my $object = abs_path((glob 'blib/arch/auto/Howdah/XS/XS.so')[0]);
my %probes = (queue_wait => 3, request_begin => 4, request_end => 3, worker_fork => 2, worker_exit => 3);
my ($sdt)  = grep { -e } '/usr/include/sys/sdt.h', glob '/usr/include/*/sys/sdt.h';
plan skip_all => 'built without systemtap-sdt-dev' if !$sdt;

my $notes = `readelf -n $object 2>&1`;
plan skip_all => "no readelf: $notes" if $?;
my %found;

# Each has its size before it; an address, as ARM's `8@[x19, 200]`, may have blanks.
while ($notes =~ /Provider: howdah\n\s+Name: (\S+)\n.*?\n\s+Arguments: (.*)/g) {
    my ($name, $arguments) = ($1, $2);
    $found{$name} = () = $arguments =~ /-?\d+@/g;
}
is_deeply \%found, \%probes, 'all are in the object, with their arguments';

# bpftrace 0.17 compiles str(arg1, arg2) to what Linux 6.1 refuses where the length is shorter.
like $notes, qr/Name: request_begin\n.*?\n\s+Arguments: \S+ 8@\S+ 8@/, 'the length of a target has 64 bits';

my $docs = read_file('docs/tracing.md');
like $docs, qr/^\| `$_` \|/m, "docs/tracing.md tells of $_" for sort keys %probes;

my $server = Howdah::Test::Server->start(
    app     => 'sub { die "planted" if $_[0]{PATH_INFO} =~ /die/; select undef, undef, undef, 0.1; [204, [], []] }',
    options => ['--workers', 1]
);
my $at     = "usdt:$object:howdah";
my $script = <<"BPF";
BEGIN { printf("attached\\n"); }
$at:queue_wait { printf("%d waited\\n", pid); }
$at:request_begin { printf("%d begin %s\\n", pid, str(arg1, arg2)); \@since[tid] = nsecs; }
$at:request_end /\@since[tid]/ { printf("%d end %d %d\\n", pid, arg1, (nsecs - \@since[tid]) / 1000000 >= 100); }
$at:worker_exit { printf("%d exit %d %d\\n", pid, arg1, arg2); }
$at:worker_fork { printf("%d fork %d\\n", pid, arg1); }
BPF

sub get {
    my $path = shift;
    return Howdah::Test::Client->ask($server, "GET $path HTTP/1.0\r\n\r\n")->{status};
}

# bpftrace, bounded whatever becomes of the test; all that it has said so far.
my $said = File::Temp->new;
my $pid  = fork // die $!;
if (!$pid) {
    open STDOUT, '>', "$said" or die $!;
    open STDERR, '>', '/dev/null' or die $!;
    exec 'timeout', '-s', 'INT', '-k', 5, 60, 'bpftrace', '-B', 'line', '-e', $script or POSIX::_exit(127);
}

sub said { return read_file($said) }

# What it has said of these processes: the object's probes are those of every server that uses it.
sub said_of {
    my %is = map { $_ => 1 } @_;
    return [map { /^(\d+) (.*)/ && $is{$1} ? $2 : () } split /\n/, said()];
}

SKIP: {
    my $over;
    $server->wait_until(sub { said() =~ /^attached/m or $over = waitpid $pid, WNOHANG }, 30);
    skip 'bpftrace is not installed, or cannot attach here', 1 if said() !~ /^attached/m;
    my ($worker) = $server->workers;
    is get('/one?a=1'), 204;
    is get('/die'), 500;
    kill KILL => $worker;
    my $new;
    ok $server->wait_until(sub {
        ($new) = grep { $_ != $worker } $server->workers;
        }),
        'another worker comes';
    is get('/two'), 204;
    ok $server->wait_until(sub { @{said_of($new)} == 3 }), 'all is told';
    kill INT => $pid;
    waitpid $pid, 0;
    is_deeply said_of($worker), ['waited', 'begin /one?a=1', 'end 204 1', 'waited', 'begin /die', 'end 500 0'],
        'requests of the one';
    is_deeply said_of($new), ['waited', 'begin /two', 'end 204 1'], 'and of the other';
    is_deeply said_of($server->processes('zygote')), ["exit $worker 9", "fork $new"], 'and workers';
    undef $pid;
}
if ($pid) { kill INT => $pid; waitpid $pid, 0 }

done_testing;
