# Requests that wait for long while there may be no more workers: the log says so once, and so do the status page, the
# metrics, howdah status and howdah top, until it is over. A pool that may still grow does that instead.
use strict;
use warnings;
use lib 't/lib';

use File::Temp ();
use Howdah::Test::Client;
use Howdah::Test::Operator;
use Howdah::Test::Server;
use JSON::PP qw(decode_json);
use Test::More;

# A poll lasts until there is news, which is a file.
my $app = <<'PSGI';
sub {
    my $path = $_[0]{PATH_INFO};
    select undef, undef, undef, $1 if $path =~ m{^/slow/([\d.]+)};
    if ($path eq '/poll') { -e $ENV{NEWS} and last or select undef, undef, undef, 0.05 for 1 .. 1200 }
    return [200, [], ["ok"]];
};
PSGI
my @pages = qw(--status-path /server-status --metrics-path /metrics);
my $told  = qr/WARN.* requests wait for a worker: \d+, the oldest for \d+\.\d s; all (\d+) workers are busy/;

sub ask {
    my ($server, $path) = @_;
    my $client = Howdah::Test::Client->new($server);
    $client->write("GET $path HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    return $client;
}

sub queue { return decode_json(ask($_[0], '/server-status?json')->response->{body})->{queue} }

subtest 'long polls on too few workers' => sub {
    my $operator = Howdah::Test::Operator->new;
    my $dir      = File::Temp->newdir;
    my $server   = Howdah::Test::Server->start(
        app     => $app,
        options => ['--workers', 2, @pages, $operator->options],
        env     => {NEWS => "$dir/news"}
    );
    ok !queue($server)->{saturated}, 'not at rest';
    my @polls = map { ask($server, '/poll') } 1 .. 10;
    my $quick = ask($server, '/quick');
    ok $server->wait_for_log($told), 'the log says so';
    is + ($server->log =~ $told)[0], 2, 'and how many workers there are';
    ok $server->wait_until(sub { queue($server)->{saturated} }, 10), 'the status page';
    cmp_ok queue($server)->{oldest_seconds}, '>', 0.5, 'and for how long the oldest waits';
    like ask($server, '/server-status')->response->{body}, qr/the oldest for [^<]+; there may be no more workers/,
        'HTML';
    like ask($server, '/metrics')->response->{body}, qr/^howdah_saturated 1$/m, 'metrics';
    my ($status, $out) = $operator->ask('status');
    like $out, qr/^queue +\d+ waiting, the oldest for \w+: all workers are busy, and there may be no more$/m, 'status';
    like + ($operator->ask('top', '--once'))[1], qr/^waiting .*, the oldest for \S+: there may be no more workers$/m,
        'top';

    open my $news, '>', "$dir/news" or die $!;
    is_deeply [map { $_->response->{status} } @polls, $quick], [(200) x 11], 'all are served';
    ok $server->wait_until(sub { !queue($server)->{saturated} }, 10), 'then it is over';
    my ($seconds) = ask($server, '/metrics')->response->{body} =~ /^howdah_saturated_seconds_total (\S+)$/m;
    cmp_ok $seconds, '>', 0.5, 'but counted';
    is scalar(() = $server->log =~ /$told/g), 1, 'and told once, though it lasted';
};

subtest 'a pool that may grow' => sub {
    my $server = Howdah::Test::Server->start(app => $app, options => [qw(--min-workers 1 --workers 4), @pages]);
    my @polls  = map { ask($server, '/slow/2.5') } 1 .. 4;
    is_deeply [map { $_->response->{status} } @polls], [(200) x 4];
    is queue($server)->{saturated_seconds}, 0, 'has others come, and nothing to complain of';
    unlike $server->log, $told;
};

done_testing;
