# A server that is started with nearly as many descriptors open as there may be, one more each time: wherever its start ends for
# want of one, it says what is to be raised, and nothing in it breaks.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Server;
use Howdah::Test::Command qw(howdah_bin);
use Test::More;

use constant LIMIT => 34;

# What the server inherits is not closed by exec.
sub start {
    my $count = shift;
    local $^F = LIMIT;
    my @open = map { open my $one, '<', '/dev/null' or die $!; $one } 1 .. $count;
    return Howdah::Test::Server->launch(
        app     => 'sub { [200, [], ["x"]] }',
        command => ['sh', '-c', 'ulimit -n ' . LIMIT . '; exec "$@"', 'sh', howdah_bin(), '--listen', '127.0.0.1:0'],
        options => ['--workers', 1],
    );
}

for my $count (4 .. LIMIT - 6) {
    my $server = start($count);
    my $status = $server->wait_for_exit;
    my $log    = $server->log;
    is $status, 1, "$count more are open";
    like $log, qr/^howdah: \w.*\S: Too many open files.*; .*ulimit -n/m,
        '... it says what it cannot do, and what to raise';
    unlike $log, qr/panicked|fault of howdah/, '... and no more';
}

done_testing;
