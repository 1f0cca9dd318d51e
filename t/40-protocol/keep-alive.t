# How long a connection lives, and how requests follow each other on it (RFC 9112 section 9).
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Server;
use Test::More;

my $server = Howdah::Test::Server->start(file => 't/apps/shapes.psgi', options => ['--workers', 2]);

# The request's head without its last line, whether the connection lives on, the Connection field of the answer.
my @cases = (
    ['9.3: persistent by default', "GET /array HTTP/1.1\r\nHost: x", 1, undef],
    ['9.6: close is obeyed', "GET /array HTTP/1.1\r\nHost: x\r\nConnection: close", 0, 'close'],
    ['9.6: close in any case, in a list', "GET /array HTTP/1.1\r\nHost: x\r\nConnection: foo, Close", 0, 'close'],
    ['9.6: close in a second line', "GET /array HTTP/1.1\r\nHost: x\r\nConnection: a\r\nConnection: close", 0, 'close'],
    ['9.3: 1.0 is not persistent', "GET /array HTTP/1.0", 0, 'close'],
    ['9.3: 1.0 asks for keep-alive', "GET /array HTTP/1.0\r\nConnection: Keep-Alive", 1, 'keep-alive'],
    ['9.6: close beats keep-alive', "GET /array HTTP/1.0\r\nConnection: keep-alive, close", 0, 'close'],
    ['9.6: the application closes', "GET /close HTTP/1.1\r\nHost: x", 0, 'close'],
    ['6.3: 1.0 and a length unknown', "GET /stream HTTP/1.0\r\nConnection: keep-alive", 0, 'close'],
    ['6.3: 1.0, streamed with a length', "GET /stream-given HTTP/1.0\r\nConnection: keep-alive", 1, 'keep-alive'],
);

for my $case (@cases) {
    my ($name, $head, $lives, $connection) = @$case;
    subtest $name => sub {
        my $client = Howdah::Test::Client->new($server);
        $client->write("$head\r\n\r\n");
        my $response = $client->response;
        is $response->{status}, 200 or diag $response->{error};
        my $field = $response->{headers}{connection} // [];
        is lc(join ',', @$field), $connection // '', 'Connection field' if $lives || $head !~ /1\.0/;
        return ok $client->is_closed, 'closed' if !$lives;
        $client->write("GET /given HTTP/1.1\r\nHost: x\r\n\r\n");
        is $client->response->{body}, 'given', 'another request is answered';
    };
}

subtest '9.3.2: pipelined requests are answered in their order' => sub {
    my $client = Howdah::Test::Client->new($server);
    my @paths  = ('stream', 'array', 'nothing', 'handle', 'given') x 5;
    $client->write(join '', map { "GET /$_ HTTP/1.1\r\nHost: x\r\n\r\n" } @paths);
    my %body =
        (stream => 'onetwothree', array => 'onetwothree', nothing => '', handle => 'from a handle', given => 'given');
    is_deeply [map { $client->response->{body} } @paths], [map { $body{$_} } @paths];
    ok $client->is_quiet, 'and nothing more';
};

subtest '9.3.2: pipelined behind bodies of every kind, read by nobody' => sub {
    my $client = Howdah::Test::Client->new($server);
    my $post   = "POST /given HTTP/1.1\r\nHost: x\r\n";
    my $big    = 'b' x 200_000;
    $client->write($post . "Content-Length: 5\r\n\r\nGET /");
    $client->write($post . "Transfer-Encoding: chunked\r\n\r\n5\r\nGET /\r\n0\r\nX-Trailer: t\r\n\r\n");
    $client->write($post . "Content-Length: 0\r\n\r\n");
    $client->write($post . "Content-Length: 200000\r\n\r\n$big");
    $client->write("GET /array HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\nGET /never HTTP/1.1\r\nHost: x\r\n\r\n");
    is_deeply [map { $client->response->{body} } 1 .. 5], [('given') x 4, 'onetwothree'];
    is $client->rest, '', 'what follows a close is not answered (9.6)';
};

subtest '2.2: an empty line before a request is let pass' => sub {
    my $client = Howdah::Test::Client->new($server);
    $client->write("\r\nGET /given HTTP/1.1\r\nHost: x\r\n\r\n\r\nGET /array HTTP/1.1\r\nHost: x\r\n\r\n");
    is $client->response->{body}, 'given';
    is $client->response->{body}, 'onetwothree';
};

subtest 'a client that shuts its side after the request still gets its answer' => sub {
    my $client = Howdah::Test::Client->asking($server, '/stream');
    $client->shut;
    is $client->response->{body}, 'onetwothree';
    ok $client->is_closed;
};

subtest '--keepalive-requests and --disable-keepalive' => sub {
    my $get = "GET /given HTTP/1.1\r\nHost: x\r\n\r\n";
    for my $case ([2, '--keepalive-requests', 2], [1, '--disable-keepalive']) {
        my ($count, @options) = @$case;
        my $strict = Howdah::Test::Server->start(file => 't/apps/shapes.psgi', options => ['--workers', 1, @options]);
        my $client = Howdah::Test::Client->new($strict);
        $client->write($get x 3);
        my @responses = map { $client->response } 1 .. $count;
        is_deeply [map { $_->{body} } @responses], [('given') x $count], "@options";
        is $responses[-1]{headers}{connection}[0], 'close', 'the last one says so';
        ok $client->is_closed;
    }
};

done_testing;
