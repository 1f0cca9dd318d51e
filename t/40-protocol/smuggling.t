# Request smuggling: bodies whose end two parsers may see at different places. Here there is one end or a refusal;
# the request hidden in the body is never run (RFC 9112 11.2).
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Server;
use Test::More;

my $server = Howdah::Test::Server->start(
    options => ['--workers', 1],
    app     => <<'PSGI',
  my $smuggled = 0;
  sub {
    my $env = shift;
    $smuggled++ if $env->{PATH_INFO} eq '/smuggled';
    return [200, [], [$env->{PATH_INFO} eq '/count' ? $smuggled : 'front door']];
  };
PSGI
);

my $hidden = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n";
my $inside = length $hidden;
my $post   = "POST / HTTP/1.1\r\nHost: x\r\n";

# Name, statuses that are right, the bytes.
my @attacks = (
    ['CL.TE', [400], "${post}Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n$hidden"],
    ['TE.CL', [400], "${post}Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n1\r\nZ\r\n0\r\n\r\n$hidden"],
    ['TE.TE', [400, 501], "${post}Transfer-Encoding: chunked\r\nTransfer-Encoding: cow\r\n\r\n0\r\n\r\n$hidden"],
    ['xchunked', [501], "${post}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n$hidden"],
    ['identity', [400, 501], "${post}Transfer-Encoding: identity\r\nContent-Length: 0\r\n\r\n$hidden"],
    ['space before the colon', [400], "${post}Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n$hidden"],
    ['tab in the value', [400, 501], "${post}Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n$hidden"],
    ['folded coding', [400], "${post}Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n$hidden"],
    ['bare LF', [400], "${post}X: y\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n$hidden"],
    ['quoted', [400, 501], "${post}Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n$hidden"],
    ['CL.CL', [400], "${post}Content-Length: 0\r\nContent-Length: $inside\r\n\r\n$hidden"],
    ['comma CL', [400], "${post}Content-Length: 0, $inside\r\n\r\n$hidden"],
    ['octal CL', [200], "${post}Content-Length: 0$inside\r\n\r\n$hidden"],
    ['CL with NUL', [400], "${post}Content-Length: $inside\0\r\n\r\n$hidden"],
    ['underscore TE', [200], "${post}Transfer_Encoding: chunked\r\nContent-Length: $inside\r\n\r\n$hidden"],
    ['underscore CL', [200], "${post}Content_Length: 0\r\nContent-Length: $inside\r\n\r\n$hidden"],
    ['GET with a body', [200], "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: $inside\r\n\r\n$hidden"],
    ['HEAD with a body', [200], "HEAD / HTTP/1.1\r\nHost: x\r\nContent-Length: $inside\r\n\r\n$hidden"],
    ['body nobody reads', [200], "${post}Content-Length: $inside\r\n\r\n$hidden"],
    ['in a chunk', [200], sprintf "%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", $post, $inside, $hidden],
    ['in an extension', [400], "${post}Transfer-Encoding: chunked\r\n\r\n0;\n$hidden"],
    ['in trailers', [400], "${post}Transfer-Encoding: chunked\r\n\r\n0\r\n$hidden"],
    ['chunk without its CRLF', [400], "${post}Transfer-Encoding: chunked\r\n\r\n1\r\nZZ0\r\n\r\n$hidden"],
    ['wrapping chunk size', [400], "${post}Transfer-Encoding: chunked\r\n\r\n10000000000000000\r\n0\r\n\r\n$hidden"],
    [
        '1.0 with chunks', [400],
        "POST / HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n$hidden"
    ],
    ['413 with its body behind', [413], "${post}Content-Length: 99999999999\r\n\r\n$hidden"],
    ['417 with its body behind', [417], "${post}Expect: x\r\nContent-Length: $inside\r\n\r\n$hidden"],
    ['CRLF in the target', [400], "GET /%0d%0aX:\r\n y HTTP/1.1\r\nHost: x\r\n\r\n$hidden"],
    ['LF hidden in a value', [400], "${post}X: a\n\n$hidden"],
);

for my $attack (@attacks) {
    my ($name, $right, $bytes) = @$attack;
    my $client = Howdah::Test::Client->new($server);
    $client->write($bytes);
    $client->shut;
    my $response = $client->response(head => scalar $bytes =~ /^HEAD/);
    my ($right_status) = grep { $_ == $response->{status} } @$right;
    ok $right_status, "$name: @$right" or diag "$response->{status} $response->{error}";
    is $client->rest, '', '  one answer';
}

is(Howdah::Test::Client->ask($server, "GET /count HTTP/1.0\r\n\r\n")->{body}, 0, 'no hidden request was run');

done_testing;
