# A limit of the size of files (ulimit -f, RLIMIT_FSIZE) is as a full disk: an upload is refused, a log waits, and the
# server goes on. What it starts has the system's behaviour, which is to end by SIGXFSZ.
use strict;
use warnings;
use lib 't/lib';

use File::Temp ();
use Howdah::Test::Client;
use Howdah::Test::File qw(read_if_any);
use Howdah::Test::Process qw(descendants);
use Howdah::Test::Server;
use Test::More;

plan skip_all => 'no prlimit (util-linux)' if !grep { -x "$_/prlimit" } split /:/, $ENV{PATH};

use constant {SIGXFSZ => 25, LIMIT => 100_000};

my $dir = File::Temp->newdir;
my $app = <<'PSGI';
sub {
    my $env = shift;
    my $in  = $env->{'psgi.input'};
    warn 'x' x 79, "\n" for 1 .. $env->{QUERY_STRING} || 0;
    local $/;
    return [200, [], [length(<$in> // '')]];
}
PSGI
my @options = ('--workers', 1, '--access-log', "$dir/access", '--slow-log', 1000, '--slow-log-file', "|cat >$dir/slow");
my $server =
    Howdah::Test::Server->start(app => $app, options => [@options, '--error-log', "$dir/errors"], expect => qr/^/);
$server->wait_until(sub { errors() =~ /serving/ });
my ($port) = errors() =~ /serving .*:(\d+) with/;

sub errors { return read_if_any("$dir/errors") }

sub limit { return system 'prlimit', '--pid', $server->pid, "--fsize=$_[0]:" }

sub ask { return Howdah::Test::Client->ask($port, "GET /$_[0] HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n") }

sub upload {
    my ($length) = @_;
    my $head = "POST /u HTTP/1.1\r\nHost: x\r\nContent-Length: $length\r\nConnection: close\r\n\r\n";
    return Howdah::Test::Client->ask($port, $head . 'x' x $length);
}

sub disposition {
    my ($pid, $which) = @_;
    open my $in, '<', "/proc/$pid/status" or return;
    my ($mask) = join('', <$in>) =~ /^Sig$which:\s+([0-9a-f]{16})$/m or return;
    return hex(substr $mask, -8) >> SIGXFSZ - 1 & 1;
}

subtest 'those that the server starts are not concerned' => sub {
    my @family = descendants(2, $server->pid);
    cmp_ok scalar @family, '>=', 4, 'launcher, zygote, worker, cat';
    is disposition($_, 'Ign'), 0, "process $_ does not ignore it" for @family;
    is disposition($server->pid, 'Cgt'), 1, 'the server catches it';
};

subtest 'at the limit' => sub {
    is limit(LIMIT), 0, 'prlimit';
    for my $round (1 .. 3) {
        is upload(2_000_000)->{status}, 503, "upload $round";
    }
    is upload(900_000)->{body}, 900_000, 'one that needs no file';
    is scalar(grep { ask('x' x 2000)->{status} != 200 } 1 .. 100), 0, 'requests go on';
    ok $server->wait_until(sub { errors() =~ /access log \S+: File too large/ }), 'the error log knows of the log';
    like errors(), qr/ERROR front: cannot store a request body: File too large.*\(503\); see --spool-dir/,
        'and of the upload';
    cmp_ok -s "$dir/access", '<=', LIMIT;
};

subtest 'without it everything goes on' => sub {
    is limit('unlimited'), 0, 'prlimit';
    is upload(2_000_000)->{body}, 2_000_000;
    ok $server->wait_until(sub { errors() =~ /access log \S+ is written again; lines dropped so far: 0/ });
    is limit(1), 0, 'the same for the error log, which has more to say than is kept in memory';
    is scalar(grep { ask('?4000')->{status} != 200 } 1 .. 5), 0, 'requests go on';
    is limit('unlimited'), 0, 'prlimit';
    ok $server->wait_until(sub { errors() =~ /ERROR front: \d{4,} lines of this log are lost: File too large/ });
    is $server->stop, 0;
    open my $in, '<', "$dir/access" or die $!;
    my @lines = <$in>;
    is scalar(@lines), 110, 'a line for each request';
    is scalar(grep { !/^127\.0\.0\.1 - - \[.*"-"\n\z/ } @lines), 0, 'and each is whole';
};

done_testing;
