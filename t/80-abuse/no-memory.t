# A front that gets no more memory (ulimit -d, vm.overcommit_memory=2) ends, as every program in Rust does, and says what to raise.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Command qw(run_command);
use Howdah::Test::Server;
use IO::Socket::INET;
use Test::More;

my $server = Howdah::Test::Server->start(options => ['--workers', 1, '-e', 'sub { [200, [], [$$]] }']);
plan skip_all => 'there is no prlimit' if (run_command('prlimit', '--pid', $server->pid, '--data=1'))[0];
local $SIG{PIPE} = 'IGNORE';
my @clients;
while (@clients < 4000 && $server->is_running) {
    my $client = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $server->port) or last;
    print {$client} 'GET / HTTP/1.1';
    push @clients, $client;
}
is $server->wait_for_exit, 'signal 6', 'it ends when it needs more for its connections';
like $server->log,
    qr/^howdah: the system gives no more memory, .*: raise ulimit -v and -d, or look at vm\.overcommit_memory$/m,
    '... with what to raise';
like $server->log, qr/^memory allocation of \d+ bytes failed/m, '... and how much it was';

# What comes of a page of shared memory for which there is none.
$server = Howdah::Test::Server->start(options => ['--workers', 1, '-e', 'sub { [200, [], [$$]] }']);
my ($worker) = $server->workers;
kill BUS => $worker;
ok $server->wait_for_log(qr/worker .*signal BUS.*vm\.overcommit_memory/),
    'a worker for whose page there is none is told of';
$server->signal('BUS');
is $server->wait_for_exit, 'signal 7', 'the front ends';
like $server->log, qr/^howdah: the kernel has not given a page \(signal BUS\): .*vm\.overcommit_memory/m,
    '... and says why';

done_testing;
