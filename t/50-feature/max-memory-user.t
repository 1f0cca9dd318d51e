# --max-memory with --user, as root of a container has it who may not look at others' processes: it looks as the user of the
# workers. Where nobody can look, the log says so, once.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Command qw(howdah_bin run_command);
use Howdah::Test::Server;
use Test::More;
use Time::HiRes qw(sleep);

plan skip_all => 'only root can become somebody else' if $> != 0;
plan skip_all => 'there is no user nobody' if !getpwnam 'nobody';

my $rights  = join ',', map { "-$_" } qw(sys_ptrace sys_admin perfmon);
my @without = ('setpriv', "--bounding-set=$rights", "--inh-caps=$rights");
plan skip_all => 'there is no such setpriv' if (run_command(@without, 'true'))[0];

my $grown = qr/worker has grown too large .*pid=(\d+)/;
my $hidden =
    qr/WARN .*--max-memory replaces nobody whose memory cannot be read, as that of worker \d+ \(.*CAP_SYS_PTRACE/;

sub launch {
    my (@command) = @_;
    my $server = Howdah::Test::Server->launch(
        command => [@command, howdah_bin(), '--listen', '127.0.0.1:0'],
        options => [
            '--workers', 1, '--max-memory', '40m', '--user', 'nobody', '-e',
            'my $x = "x" x 1e8; sub { $x =~ tr/x/y/; [200, [], [$$]] }'
        ]
    );
    $server->wait_for_log(qr/serving/);
    return ($server, Howdah::Test::Client->ask($server, "GET / HTTP/1.0\r\n\r\n")->{body});
}

my ($server, $worker) = launch(@without);
ok $server->wait_for_log($grown), 'a worker of another user is measured';
is(($server->log =~ $grown)[0], $worker, '... and the one that has grown is replaced');
unlike $server->log, $hidden;

my @hide =
    ('unshare', '--mount', 'sh', '-c', 'mount -t proc -o hidepid=invisible,gid=54321 proc /proc && exec "$@"', 'sh');
SKIP: {
    skip 'no such /proc can be had here', 3 if (run_command(@hide, 'true'))[0];
    ($server) = launch(@hide, @without);
    ok $server->wait_for_log($hidden), 'that it cannot be measured is told, and the way out';
    sleep 2.5;    # memory is looked at every two seconds
    my @told = $server->log =~ /$hidden/g;
    is scalar @told, 1, '... once';
    unlike $server->log, $grown;
}

done_testing;
