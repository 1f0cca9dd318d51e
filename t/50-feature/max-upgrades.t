# --max-upgrades: connections that applications take leave workers for everybody else, and are counted.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Command qw(run_howdah);
use Howdah::Test::Server;
use Howdah::Test::Tls;
use Howdah::Test::Upgrades qw(come_to counts);
use Test::More;

my $app = <<'PSGI';
my %do = (
    '/hold'   => sub { my $io = shift; print {$io} sprintf '%07d', $$; 1 while sysread $io, my $x, 100 },
    '/switch' => sub { my ($io, $respond) = @_; $respond->([101, [Upgrade => 'x'], []]); 1 while sysread $io, my $x, 100 },
    '/catch'  => sub { my ($io, $respond) = @_; $respond->([200, [], [eval { fileno $io } ? 'taken' : $@]]) },
);
sub {
    my $env = shift;
    my $do  = $do{$env->{PATH_INFO}} or return [200, [], ['ok']];
    return sub { $do->($env->{'psgix.io'}, @_) };
};
PSGI
my @pages = ('--status-path', '/status', '--metrics-path', '/metrics');

sub request { return "GET $_[0] HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n" }

sub ask {
    my ($server, $path) = @_;
    return Howdah::Test::Client->ask($server, request($path));
}

# A connection that the application has, and the process.
sub hold {
    my $client = Howdah::Test::Client->new(shift);
    $client->write(request('/hold'));
    return ($client, $client->take(7));
}

sub everything {
    my $server = Howdah::Test::Server->start(app => $app, options => ['--workers', 3, @pages]);
    is counts($server), 'open 0 limit 2 total 0 refused 0', 'one worker is left for others';
    my ($first) = hold($server);
    my ($second, $pid) = hold($server);
    for my $path ('/hold', '/switch') {
        my $response = ask($server, $path);
        is $response->{status}, 503, "$path beyond it";
        is_deeply $response->{headers}{'retry-after'}, [1], '... may come again';
    }
    is ask($server, '/')->{body}, 'ok', '... and others are served';
    like ask($server, '/catch')->{body}, qr/^psgix\.io: applications have as many connections as --max-upgrades allows/,
        'an application that catches it answers by itself';
    ok $server->wait_for_log(qr/WARN .*applications have 2 connections, as many as --max-upgrades allows/),
        'the log says so'
        or diag $server->log;
    unlike $server->log, qr/the application failed/, '... and blames nobody';
    come_to($server, 'open 2 limit 2 total 2 refused 3');
    like ask($server, '/metrics')->{body}, qr/^\Q$_\E$/m, $_
        for 'howdah_upgraded_connections 2', 'howdah_upgrades_total{result="refused"} 3',
        'howdah_request_failures_total{cause="upgrade_limit"} 2';
    like ask($server, '/status?auto')->{body}, qr/^UpgradedConns: 2$/m, 'Apache\'s form';
    like ask($server, '/status')->{body}, qr/2 of 2, 2 in all, 3 refused/, 'the page';
    my (undef, $status) = run_howdah('status', '--control', $server->dir . '/control');
    like($status, qr/^upgrades +2 of 2 connections, 2 since/m, 'the command');

    $first->shut;
    come_to($server, 'open 1 limit 2 total 2 refused 3');
    kill KILL => $pid;
    come_to($server, 'open 0 limit 2 total 2 refused 3');
    my @again = map { [hold($server)] } 1, 2;
    is scalar(grep { $_->[1] } @again), 2, 'there is room again';
    return;
}

Howdah::Test::Tls::either_way(\&everything);

for ([1, [], 1], [4, ['--max-upgrades', 0], 0], [2, ['--max-upgrades', 2], 2]) {
    my ($workers, $options, $limit) = @$_;
    my $server = Howdah::Test::Server->start(app => $app, options => ['--workers', $workers, @$options, @pages]);
    like counts($server), qr/limit $limit /, "$workers workers, @$options: $limit";
    is ask($server, '/hold')->{status}, 503, 'none at all' if !$limit;
}

done_testing;
