# --max-requests: workers are replaced after so many requests, with jitter, and no request notices.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Load;
use Howdah::Test::Server;
use Test::More;

my $app = <<'PSGI';
my $load = do './t/apps/load.psgi' or die;
sub { print STDERR "served by $$\n"; $load->(@_) };
PSGI

for my $option ('--max-requests', '--max-reqs-per-child') {
    my $server = Howdah::Test::Server->start(app => $app, options => ['--workers', 3, $option, 20]);
    my @load   = (
        Howdah::Test::Load->start($server, connections => 8, requests => 1000),
        Howdah::Test::Load->start($server, connections => 2, requests => 200, fresh => 1),
    );
    for my $result (map { $_->finish } @load) {
        is_deeply $result->{problems}, [], $option;
        is_deeply [keys %{$result->{status}}], [200], "$result->{requests} requests";
    }
    $server->wait_until(sub { (() = $server->log =~ /served by/g) >= 1200 });
    my %served;
    $served{$_}++ for $server->log =~ /served by (\d+)/g;
    my @counts = sort { $a <=> $b } values %served;
    cmp_ok $counts[-1], '<=', 22, 'no worker serves more than its share and a tenth';
    cmp_ok $counts[-1], '>=', 18;
    cmp_ok scalar @counts, '>=', 1200 / 22, 'many had their turn';
    ok $server->wait_until(sub { $server->workers == 3 }), 'three are there';
}

# A worker that leaves is none to wait for: its hooks may hang, as when a database that it disconnects from is gone.
my $hangs  = 'use Howdah; Howdah->worker_exit(sub { sleep 170 }); sub { [200, [], ["$$"]] }';
my $server = Howdah::Test::Server->start(
    app     => $hangs,
    options => ['--workers', 1, '--max-requests', 2, '--graceful-timeout', '2s']
);
my %served;
$served{Howdah::Test::Client->ask($server, "GET / HTTP/1.0\r\n\r\n")->{body} // 'none'}++ for 1 .. 6;
is_deeply [values %served], [2, 2, 2], 'others take the place of workers that do not leave' or diag explain \%served;
ok $server->wait_until(sub {
    !grep { kill 0, $_ } keys %served;
    }),
    '... which are killed'
    or diag $server->log;
ok $server->wait_for_log(qr/worker did not leave in time and is killed/), '... as the log says'
    or diag $server->log;

done_testing;
