# X-Request-Id: a sane one is taken over, otherwise one is made; the application sees it, the client gets it back, and
# so does the client of an answer that the front gives by itself.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Server;
use Test::More;

my $app = <<'PSGI';
sub {
    my $env = shift;
    my $id = $env->{HTTP_X_REQUEST_ID} // 'none';
    my $path = $env->{PATH_INFO};
    return [200, ['X-REQUEST-ID' => 'mine'], [$id]] if $path eq '/own';
    return [200, ['Content-Length' => 3], ['too long']] if $path eq '/wrong';
    return sub { my $w = shift->([200, []]); $w->write($id); $w->close } if $path eq '/stream';
    return sub { open my $in, '<', '/etc/passwd' or die $!; shift->([200, [], $in]) } if $path eq '/file';
    die "no\n" if $path eq '/die';
    kill KILL => $$ if $path eq '/killed';
    sleep 10 if $path eq '/slow';
    [200, [], [$id]];
};
PSGI
my @options = (
    '--workers', 2, '--health-path', '/health', '--access-log', '-', '--access-log-format', 'log %L %r',
    '--log-level', 'debug'
);
my $server = Howdah::Test::Server->start(app => $app, options => [@options, '--request-timeout', '500ms']);
my $made   = qr/[0-9a-f]{32}/;

sub ask {
    my ($path, @fields) = @_;
    my $head     = join '', map { "$_\r\n" } "GET $path HTTP/1.1", 'Host: x', @fields, 'Connection: close';
    my $response = Howdah::Test::Client->ask($server, "$head\r\n");
    return ($response, join '|', @{$response->{headers}{'x-request-id'} // []});
}

subtest 'a sane id is taken over' => sub {
    for my $given ('a', 'Root=1-67891233-abcdef012345678912345678', '4bf92f35/77b~x.y_z:1+2@=-', 'x' x 128) {
        my ($response, $back) = ask('/', "x-request-id: $given");
        is_deeply [$response->{body}, $back], [$given, $given], $given;
    }
};

subtest 'another is replaced' => sub {
    my @cases = ('', 'a b', 'a"b', 'a,b', "a\tb", "\xff", '<script>', 'x' x 129, "a\r\nX-Request-Id: b");
    for my $given (@cases) {
        my ($response, $back) = ask('/', "X-Request-Id: $given");
        like $response->{body}, qr/^$made$/;
        is $back, $response->{body};
    }
};

subtest 'ids differ, also on one connection' => sub {
    my $client = Howdah::Test::Client->new($server);
    my %seen;
    for (1 .. 50) {
        $client->write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
        $seen{$client->response->{body}}++;
    }
    is keys %seen, 50;
};

is((ask('/own'))[1], 'mine', "the application's own is left alone");
for my $path (qw(/stream /file)) {
    my ($response, $back) = ask($path, 'X-Request-Id: q');
    is "$response->{status} $back", '200 q', $path;
}

subtest 'answers of the front' => sub {
    my %status = (health => 200, die => 500, killed => 502, slow => 504);
    for my $name (sort keys %status) {
        my ($response, $back) = ask("/$name", "X-Request-Id: for-$name");
        is "$response->{status} $back", "$status{$name} for-$name", $name;
        ok $server->wait_for_log(qr{^log for-$name GET /$name HTTP/1\.1$}m), 'and its line in the log';
    }
    my $large = Howdah::Test::Client->ask(
        $server,
        "PUT / HTTP/1.1\r\nHost: x\r\nX-Request-Id: chunky\r\n" . "Transfer-Encoding: chunked\r\n\r\nnonsense\r\n"
    );
    is "$large->{status} @{$large->{headers}{'x-request-id'} // []}", '400 chunky', 'a body that breaks the rules';
    ok $server->wait_for_log(qr{^log chunky PUT / HTTP/1\.1$}m), 'and its line';
    for my $case (
        [400, 'nonsense'],
        [414, 'GET /' . 'x' x 20_000 . ' HTTP/1.1'],
        [417, "GET / HTTP/1.1\r\nHost: x\r\nExpect: more"],
        [431, "GET / HTTP/1.1\r\nHost: x\r\nX-Request-Id: unread\r\nX: " . 'x' x 70_000]
        )
    {
        my ($status, $head) = @$case;
        my $refused = Howdah::Test::Client->ask($server, "$head\r\n\r\n");
        my ($id) = @{$refused->{headers}{'x-request-id'} // []};
        like "$refused->{status} " . ($id // 'none'), qr/^$status $made$/, "one that is refused by its head, $status";
        ok $server->wait_for_log(qr{^log \Q$id\E }m), 'and its line' if $id;
        ok $server->wait_for_log(qr{refused a request: .*request_id=\Q$id\E}), 'and why' if $id;
    }
};

subtest 'messages name the request' => sub {
    ask('/wrong?x=1', 'X-Request-Id: liar');
    ok $server->wait_for_log(qr{Content-Length 3 but a body of 8 bytes to GET /wrong\?x=1; .*request_id=liar});
    ok $server->wait_for_log(qr{no answer within --request-timeout: GET /slow .*request_id=for-slow});
};

subtest '--no-request-id' => sub {
    $server = Howdah::Test::Server->start(app => $app, options => [@options, '--no-request-id']);
    my ($response, $back) = ask('/', 'X-Request-Id: a b');
    is "$response->{body} $back", 'a b ', 'it is a field like any other';
    ($response, $back) = ask('/');
    is "$response->{body} $back", 'none ';
    ok $server->wait_for_log(qr{^log - GET / HTTP/1\.1$}m);
};
done_testing;
