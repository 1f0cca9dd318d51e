# An application that --user has made another's, and that wants of root's front what only root may do.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Server;
use Test::More;

plan skip_all => 'only root can become somebody else' if $> != 0;
plan skip_all => 'there is no user nobody' if !getpwnam 'nobody';

sub start {
    my ($app, @options) = @_;
    return Howdah::Test::Server->start(options => ['--workers', 1, '--user', 'nobody', @options, '-e', $app]);
}

sub ask {
    my ($server, $path) = @_;
    return Howdah::Test::Client->ask($server, "GET $path HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
}

# The zygote's socket, by which the front hears who the workers are that it is to kill, is open while the application is loaded.
subtest 'it calls a process of root a worker of its own' => sub {
    my $server = start(<<'PSGI');
my $parent = getppid;
my @launchers;
for my $file (glob '/proc/[0-9]*/stat') {
    open my $stat, '<', $file or next;
    my ($pid, $of) = (<$stat> // '') =~ /^(\d+) \(.*\) \S (\d+)/s or next;
    open my $line, '<', "/proc/$pid/cmdline" or next;
    push @launchers, $pid if $of == $parent && (<$line> // '') =~ /launcher/;
}
open my $front, '+<&', 3 or die $!;
send $front, pack('L2l2', 3, 0, $_, 0), 0 for @launchers;
sub { sleep 30 if $_[0]{PATH_INFO} eq '/hang'; [200, [], [scalar @launchers]] };
PSGI
    is ask($server, '/')->{body}, 2, 'launchers, which are children of the front as orphans are';
    my $refused = () = $server->log =~ /calls a process its worker that is no child of it, which is left alone/g;
    is $refused, 2, '... are left alone' or diag $server->log;
    is $server->stop, 0, 'a clean end';
};

done_testing;
