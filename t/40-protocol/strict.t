# What is refused, with which status; each refusal closes the connection, and what follows it is never run
# (RFC 9112 unless another is named). The rules' corners are tested in crates/http1/tests; here they meet the wire.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Server;
use Test::More;

my $server = Howdah::Test::Server->start(
    options => ['--workers', 1, '--max-body-size', 1000],
    app     => 'my $calls = 0; sub { [200, [], [$_[0]{PATH_INFO} eq "/calls" ? $calls : ++$calls]] }',
);

my $get     = "GET / HTTP/1.1\r\nHost: x\r\n";
my $post    = "POST / HTTP/1.1\r\nHost: x\r\n";
my $chunked = "${post}Transfer-Encoding: chunked\r\n\r\n";
my @refused = (
    ['3: no version', 400, "GET /\r\n\r\n"],
    ['3: two spaces', 400, "GET  / HTTP/1.1\r\nHost: x\r\n\r\n"],
    ['3: tab for space', 400, "GET\t/\tHTTP/1.1\r\nHost: x\r\n\r\n"],
    ['3: space behind the version', 400, "GET / HTTP/1.1 \r\nHost: x\r\n\r\n"],
    ['3.1: method is no token', 400, "G{T / HTTP/1.1\r\nHost: x\r\n\r\n"],
    ['3.2: control byte in the target', 400, "GET /\x01 HTTP/1.1\r\nHost: x\r\n\r\n"],
    ['3.2: 8-bit byte in the target', 400, "GET /\xe9 HTTP/1.1\r\nHost: x\r\n\r\n"],
    ['2.3: garbage version', 400, "GET / HTTQ/1.1\r\nHost: x\r\n\r\n"],
    ['2.3: two-digit version', 400, "GET / HTTP/1.10\r\nHost: x\r\n\r\n"],
    ['RFC 9110 15.6.6: HTTP/2.0 by name', 505, "GET / HTTP/2.0\r\nHost: x\r\n\r\n"],
    ['RFC 9110 2.5: a version that nobody speaks', 505, "PRI * HTTP/3.0\r\n\r\nSM\r\n\r\n"],
    ['RFC 9112 2.2: TLS client hello', 400, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" . 'x' x 100],
    ['2.2: bare LF', 400, "GET / HTTP/1.1\nHost: x\n\n"],
    ['2.2: bare CR in a value', 400, "${get}A: 1\r2\r\n\r\n"],
    ['2.2: bare CR in the request line', 400, "GET /\r HTTP/1.1\r\nHost: x\r\n\r\n"],
    ['RFC 9110 5.5: NUL in a value', 400, "${get}A: 1\x002\r\n\r\n"],
    ['5.2: obs-fold', 400, "${get}A: 1\r\n 2\r\n\r\n"],
    ['5.2: space before the first field', 400, "GET / HTTP/1.1\r\n Host: x\r\n\r\n"],
    ['5.1: space before the colon', 400, "${get}A : 1\r\n\r\n"],
    ['5: no colon', 400, "${get}A\r\n\r\n"],
    ['RFC 9110 5.1: empty name', 400, "${get}: 1\r\n\r\n"],
    ['RFC 9110 5.1: name is no token', 400, "${get}A(B): 1\r\n\r\n"],
    ['3.2: no Host', 400, "GET / HTTP/1.1\r\n\r\n"],
    ['3.2: repeated Host', 400, "${get}Host: x\r\n\r\n"],
    ['3.2: different Hosts', 400, "${get}host: y\r\n\r\n"],
    ['3.2: space in Host', 400, "GET / HTTP/1.1\r\nHost: x y\r\n\r\n"],
    ['3.2: path in Host', 400, "GET / HTTP/1.1\r\nHost: x/y\r\n\r\n"],
    ['3.2: user in Host', 400, "GET / HTTP/1.1\r\nHost: me\@x\r\n\r\n"],
    ['3.2: bad port in Host', 400, "GET / HTTP/1.1\r\nHost: x:80a\r\n\r\n"],
    ['6.3: differing lengths', 400, "${post}Content-Length: 5\r\nContent-Length: 6\r\n\r\n12345"],
    ['6.3: list of differing lengths', 400, "${post}Content-Length: 5, 6\r\n\r\n12345"],
    ['RFC 9110 8.6: negative length', 400, "${post}Content-Length: -5\r\n\r\n"],
    ['RFC 9110 8.6: signed length', 400, "${post}Content-Length: +5\r\n\r\n12345"],
    ['RFC 9110 8.6: length too long', 400, "${post}Content-Length: 99999999999999999999\r\n\r\n"],
    ['6.3: length and coding', 400, "${post}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"],
    ['6.1: chunked in 1.0', 400, "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"],
    ['6.1: unknown coding', 501, "${post}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"],
    ['6.3: chunked not last', 400, "${post}Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n"],
    ['7.1: chunked twice', 400, "${post}Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"],
    ['7.1: chunk size overflow', 400, "${chunked}fffffffffffffffff\r\n"],
    ['7.1: no chunk size', 400, "${chunked}\r\n"],
    ['7.1: chunk size with sign', 400, "${chunked}+5\r\ncamel\r\n0\r\n\r\n"],
    ['7.1: chunk too long', 400, "${chunked}5\r\ncamels\r\n0\r\n\r\n"],
    ['7.1: LF behind a chunk size', 400, "${chunked}5\ncamel\r\n0\r\n\r\n"],
    ['7.1.2: bad trailer', 400, "${chunked}0\r\nA B: c\r\n\r\n"],
    ['RFC 9110 15.5.14: body too large', 413, "${post}Content-Length: 1001\r\n\r\n" . 'x' x 1001],
    ['RFC 9110 15.5.14: chunks too large', 413, "${chunked}3e9\r\n" . 'x' x 1001],
    ['7.1.1: quotes without end in a chunk extension', 400, "${chunked}2;a=\"\r\nhi\r\n0\r\n\r\n"],
    ['RFC 9110 8.3: two Content-Types', 400, "${post}Content-Type: a/b\r\nContent-Type: c/d\r\n\r\n"],
    ['3: request line over 8 KiB', 414, 'GET /' . 'x' x 8200 . " HTTP/1.1\r\nHost: x\r\n\r\n"],
    ['3: request line without end', 414, 'GET /' . 'x' x 20_000],
    ['RFC 6585 5: head over 64 KiB', 431, $get . ('A: ' . 'x' x 1000 . "\r\n") x 66 . "\r\n"],
    ['RFC 6585 5: a field over 64 KiB', 431, "${get}A: " . 'x' x 70_000 . "\r\n\r\n"],
    ['RFC 6585 5: 129 fields', 431, $get . "A: 1\r\n" x 128 . "\r\n"],
    ['RFC 3986 2.1: bad percent-encoding', 400, "GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n"],
    ['RFC 3986 2.1: cut percent-encoding', 400, "GET /a%2 HTTP/1.1\r\nHost: x\r\n\r\n"],
    ['RFC 3986 7.3: %00', 400, "GET /%00 HTTP/1.1\r\nHost: x\r\n\r\n"],
    ['3.2: fragment', 400, "GET /#top HTTP/1.1\r\nHost: x\r\n\r\n"],
    ['3.2.1: no slash', 400, "GET index.html HTTP/1.1\r\nHost: x\r\n\r\n"],
    ['3.2.4: asterisk without OPTIONS', 400, "GET * HTTP/1.1\r\nHost: x\r\n\r\n"],
    ['RFC 9110 9.3.6: CONNECT', 501, "CONNECT x:80 HTTP/1.1\r\nHost: x:80\r\n\r\n"],
    ['RFC 9110 10.1.1: unknown expectation', 417, "${get}Expect: tea\r\n\r\n"],
);

for my $case (@refused) {
    my ($name, $status, $bytes) = @$case;
    my $client = Howdah::Test::Client->new($server);
    $client->write($bytes . "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n");
    my $response = $client->response;
    my $problem =
          $response->{status} != $status ? "status $response->{status} $response->{error}"
        : ($response->{headers}{connection}[0] // '') ne 'close' ? 'no Connection: close'
        : !$client->is_closed ? 'left open, or a further response'
        : '';
    is $problem, '', "$name: $status and close";
}

# As a HEAD it has the same head, and no body: a client by which others ask would take that for the next one's response.
for my $case (@refused) {
    my ($name, $status, $bytes) = @$case;
    next if $bytes !~ s{^(?:GET|POST) /}{HEAD /};
    my $client = Howdah::Test::Client->new($server);
    $client->write($bytes);
    my $response = $client->response(head => 1);
    my $ended    = $client->is_closed;
    ok $response->{status} == $status && $response->{headers}{'content-length'} && $ended, "RFC 9110 9.3.2: HEAD, $name"
        or diag explain $response, $ended;
}

# The bounds themselves are let pass.
my @accepted = (
    ['request line of 8 KiB', 'GET /' . 'x' x (8192 - 14) . " HTTP/1.1\r\nHost: x\r\n\r\n"],
    ['128 fields', $get . "A: 1\r\n" x 127 . "\r\n"],
    ['head of nearly 64 KiB', $get . ('A: ' . 'x' x 1000 . "\r\n") x 64 . "\r\n"],
    ['body of the limit', "${post}Content-Length: 1000\r\n\r\n" . 'x' x 1000],
    ['8-bit byte in a value (RFC 9110 5.5)', "${get}A: \xe9\r\n\r\n"],
    ['tab in a value (RFC 9110 5.5)', "${get}A: 1\t2\r\n\r\n"],
    ['an unknown method (RFC 9110 9.1)', "BREW / HTTP/1.1\r\nHost: x\r\n\r\n"],
    ['a later minor version (2.3)', "GET / HTTP/1.2\r\nHost: x\r\n\r\n"],
    ['no Host in 1.0 (3.2)', "GET / HTTP/1.0\r\n\r\n"],
);
is(Howdah::Test::Client->ask($server, $_->[1])->{status}, 200, $_->[0]) for @accepted;

my $calls = Howdah::Test::Client->ask($server, "GET /calls HTTP/1.0\r\n\r\n")->{body};
is $calls, scalar @accepted, 'no refused request, and nothing behind one, reached the application';

done_testing;
