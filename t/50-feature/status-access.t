# Who may see the status page and the metrics: nobody unless they are switched on, then clients on this machine that ask
# for it, and not what a proxy has passed on, what came over a Unix socket, or what a page of elsewhere asks for.
use strict;
use warnings;
use lib 't/lib';

use File::Temp ();
use Howdah::Test::Client;
use Howdah::Test::Operator;
use Howdah::Test::Ports qw(free_port);
use Howdah::Test::Server;
use IO::Socket::IP ();
use Test::More;

my $app   = 'sub { [200, [], ["app $_[0]{PATH_INFO}"]] }';
my @pages = qw(--status-path /server-status --metrics-path /metrics --health-path /health);
my @LOCAL = ('Host: localhost');

sub start { return Howdah::Test::Server->start(app => $app, options => ['--workers', 1, @_]) }

sub get {
    my ($to, $target, @fields) = @_;
    return Howdah::Test::Client->ask($to, join "\r\n", "GET $target HTTP/1.1", @fields, '', '');
}

# The first line of an answer over any socket.
sub status_by {
    my ($socket, @fields) = @_;
    print {$socket} join "\r\n", 'GET /server-status?auto HTTP/1.1', @fields, 'Connection: close', '', '';
    my ($status) = (scalar(<$socket>) // '') =~ m{^HTTP/1\.1 (\d+)};
    return $status;
}

subtest 'there is none unless it is asked for, but for those who ask by the control socket' => sub {
    my $operator = Howdah::Test::Operator->new;
    my $server   = start($operator->options);
    is get($server, $_, @LOCAL)->{body}, "app $_", "$_ is the application's" for qw(/server-status /metrics /health);
    is(($operator->ask('status'))[0], 0, 'howdah status');
    my ($status, $out) = $operator->ask('top', '--once');
    is $status, 0, 'howdah top';
    like $out, qr/  ready  /;
};

subtest '--status-listen shows them there, not on the application\'s listeners' => sub {
    my $port   = free_port();
    my $server = start('--status-listen', "127.0.0.1:$port");
    ok $server->wait_for_log(qr{/server-status /metrics on http://127\.0\.0\.1:$port}), 'told at the start';
    for my $page (qw(/server-status /metrics)) {
        is get($port, $page, 'Host: shop.example', 'X-Forwarded-For: 192.0.2.1')->{status}, 200, "$page is there";
        is get($server, $page, @LOCAL)->{body}, "app $page", 'and nowhere else';
    }
};

# What is asked for over loopback, and whether that is local.
my @CASES = (
    [200, 'Host: localhost'],
    [200, 'Host: LOCALHOST:5000'],
    [200, 'Host: 127.0.0.1'],
    [200, 'Host: 127.1.2.3:8080'],
    [200, 'Host: [::1]:5000'],
    [200, 'Host: localhost', 'Referer: http://localhost:5000/server-status'],
    [200, 'Host: localhost', 'Origin: http://127.0.0.1:3000'],
    [403, 'Host: example.org'],
    [403, 'Host: localhost.example.org'],
    [403, 'Host: 192.0.2.1:5000'],
    [403, 'Host: localhost', 'Origin: http://example.org'],
    [403, 'Host: localhost', 'Origin: null'],
    [403, 'Host: localhost', 'Referer: http://example.org/localhost'],
    map { [403, 'Host: localhost', $_] } (
        'Via: 1.1 varnish',
        'Forwarded: for=127.0.0.1',
        'X-Forwarded-For: 127.0.0.1',
        'x-forwarded-proto: https',
        'X-Forwarded-Host: localhost',
        'X-Real-IP: 127.0.0.1',
        'True-Client-IP: 127.0.0.1',
        'CF-Connecting-IP: 127.0.0.1',
    )
);

subtest 'a request from this machine must be for this machine, and of it' => sub {
    my $server = start(@pages);
    for my $case (@CASES) {
        my ($status, @fields) = @$case;
        my %found = map { $_ => get($server, $_, @fields)->{status} } qw(/server-status /metrics);
        is_deeply \%found, {'/server-status' => $status, '/metrics' => $status}, "$status for @fields";
        is get($server, '/health', @fields)->{status}, 200, 'health is for everybody' if $status != 200;
    }
    my $refused = get($server, '/server-status', 'Host: localhost', 'X-Real-IP: 192.0.2.7');
    like $refused->{body}, qr/^403 Forbidden: a proxy has passed the request on \(X-Real-IP\)/, 'the reason is told';
    unlike $refused->{body}, qr/Scoreboard|<html|192\.0\.2\.7/;
    my $client = Howdah::Test::Client->new($server);
    $client->write("GET /server-status HTTP/1.1\r\nHost: x\r\n\r\nGET /next HTTP/1.1\r\nHost: x\r\n\r\n");
    is_deeply [map { $client->response->{status} } 1 .. 2], [403, 200], 'the connection goes on';
};

subtest 'by IPv6, and from another address of this machine' => sub {
    my $server = Howdah::Test::Server->start(app => $app, listen => ':0', options => ['--workers', 1, @pages]);
    my ($port) = $server->log =~ /serving .* on \S+:(\d+)/;
    my $open   = sub {
        my $address = shift;
        return IO::Socket::IP->new(PeerHost => $address, PeerPort => $port, LocalHost => $address);
    };
SKIP: {
        my $six = $open->('::1') or skip 'this machine has no IPv6', 2;
        is status_by($six, 'Host: [::1]'), 200, '::1';
        is status_by($open->('::1'), 'Host: example.org'), 403, 'likewise for no other host';
    }
SKIP: {
        my ($address) = `ip -4 route get 192.0.2.1 2>/dev/null` =~ /\bsrc (\S+)/ or skip 'no other address', 5;
        is status_by($open->($address), @LOCAL), 403, 'elsewhere is not this machine';
        $server = Howdah::Test::Server->start(
            app     => $app,
            listen  => ':0',
            options => ['--workers', 1, @pages, '--status-allow', "10.255.0.0/16,$address"]
        );
        ($port) = $server->log =~ /serving .* on \S+:(\d+)/;
        is status_by($open->($address), 'Host: any.example'), 200, '--status-allow';
        is status_by($open->($address), 'Host: any.example', 'Via: 1.1 x'), 403, 'but no proxy there';
        is status_by($open->($address), 'Host: any.example', 'Referer: http://x/'), 403, 'and no page of elsewhere';
        is status_by($open->('127.0.0.1'), @LOCAL), 403, 'which takes the place of the default';
    }
};

subtest 'over a Unix socket only with --status-allow unix' => sub {
    my $dir = File::Temp->newdir;
    for my $case ([403], [403, '--status-allow', '0.0.0.0/0,::/0'], [200, '--status-allow', 'unix']) {
        my ($status, @options) = @$case;
        my $server = Howdah::Test::Server->start(
            app     => $app,
            listen  => "$dir/app.sock",
            options => ['--workers', 1, @pages, @options]
        );
        my %found = map { $_ => get("$dir/app.sock", $_, @LOCAL)->{status} } qw(/server-status /metrics);
        is_deeply \%found, {'/server-status' => $status, '/metrics' => $status}, "$status with '@options'";
        is get("$dir/app.sock", '/server-status', 'Host: shop.example')->{status}, 403, 'for this machine alone';
        is get("$dir/app.sock", '/server-status', @LOCAL, 'X-Forwarded-For: ::1')->{status}, 403, 'not by a proxy';
        is get("$dir/app.sock", '/health', 'Host: shop.example')->{status}, 200, 'health';
        is $server->stop, 0;
    }
};

done_testing;
