# Clients that take too long: each limit, what the client is told, and that the clock runs for nobody else.
# All of them wait at once, on servers whose limits are short.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Server;
use Test::More;
use Time::HiRes qw(sleep time);

my $app    = 'sub { $_[0]{PATH_INFO} eq "/big" ? [200, [], ["x" x 30_000_000]] : [200, [], ["ok"]] }';
my @limits = qw(--header-timeout 1s --keepalive-timeout 2s --min-body-rate 100k --write-timeout 2s --workers 2);
my $server = Howdah::Test::Server->start(app => $app, options => [@limits, '--response-buffer', '64k']);
my $get    = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
my $post   = "POST / HTTP/1.1\r\nHost: x\r\n";

sub client { my $client = Howdah::Test::Client->new($server); $client->write($_[0]) if @_; return $client }

my $since   = time;
my $silent  = client();
my $cut     = client("GET / HTTP/1.1\r\nHost:");
my $kept    = client($get);
my $second  = client($get . "GET /");
my $stingy  = client("${post}Content-Length: 1000\r\n\r\nabc");
my $chunked = client("${post}Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
my $deaf    = client("GET /big HTTP/1.1\r\nHost: x\r\n\r\n");
my $asked   = time;                                                            # on a busy machine seconds later, by TLS

# Meanwhile another server is stopped, for longer than its clients have.
my $stopped = Howdah::Test::Server->start(app => $app, options => ['--workers', 1, '--header-timeout', '10s']);
my @cases   = (
    ['a head', 'GET / HTTP', "/1.1\r\nHost: x\r\n\r\n"],
    ['a short body', "${post}Content-Length: 4\r\n\r\nab", 'cd'],
    ['a long body', "${post}Content-Length: 100000\r\n\r\nab", 'c' x 99_998],
    ['one in chunks', "${post}Transfer-Encoding: chunked\r\n\r\n1", "\r\na\r\n0\r\n\r\n"],
);
my @late = map { Howdah::Test::Client->new($stopped) } @cases;
$late[$_]->write($cases[$_][1]) for 0 .. $#cases;
sleep 0.5;
$stopped->signal('STOP');
sleep 0.5;
$late[$_]->write($cases[$_][2]) for 0 .. $#cases;
my $over = time + 61;

subtest '--header-timeout' => sub {
    my $response = $cut->response;
    is $response->{status}, 408, 'a head cut short (RFC 9110 15.5.9)';
    is $response->{headers}{connection}[0], 'close';
    ok $cut->is_closed;
    like $silent->rest, qr{^(?:HTTP/1\.1 408 .*)?$}s, 'a connection without a request is closed';
    is $second->response->{body}, 'ok', 'the first request of two';
    is $second->response->{status}, 408, 'and the second, cut short';
    cmp_ok time - $since, '>', 0.9, 'not before its time';
};

subtest '--keepalive-timeout' => sub {
    is $kept->response->{body}, 'ok';
    is $kept->rest, '', 'closed without a word';
    cmp_ok time - $since, '>', 1.9, 'not before its time';
};

subtest '--header-timeout bounds the whole head, not the pause between its bytes' => sub {
    my $client = client();
    my $start  = time;
    for my $byte (split //, $get . 'x' x 100) { $client->write($byte); sleep 0.1; last if !$client->is_quiet(0) }
    is $client->response->{status}, 408;
    cmp_ok time - $start, '<', 4;
};

subtest '--write-timeout' => sub {
    sleep 0.1 while time - $asked < 5;
    my $body = $deaf->response->{body};
    cmp_ok length $body, '<', 30_000_000, 'cut off';
    is client($get)->response->{body}, 'ok', 'and its worker serves again';
};

subtest 'slow, but not too slow' => sub {
    my $patient =
        Howdah::Test::Server->start(app => $app, options => ['--header-timeout', 0, '--keepalive-timeout', 0]);
    my $client = Howdah::Test::Client->new($patient);
    $client->write("${post}Content-");
    sleep 1.2;
    $client->write("Length: 3\r\n\r\na");
    sleep 1.2;
    $client->write('bc');
    is $client->response->{body}, 'ok', '0 switches a limit off';
};

subtest '--min-body-rate, after a minute of grace' => sub {
    for my $client ($stingy, $chunked) {
        is $client->response(patience => 90)->{status}, 408;
        ok $client->is_closed;
    }
    cmp_ok time - $since, '>', 59.9, 'not before its time';
};

subtest 'what has come in time, though the server was stopped for longer and could not look' => sub {
    sleep 0.1 while time < $over;
    $stopped->signal('CONT');
    is $late[$_]->response->{status}, 200, $cases[$_][0] for 0 .. $#cases;
};

done_testing;
