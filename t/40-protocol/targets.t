# From the request line to the env: forms of the target, percent-encoding, names (RFC 9112 3.2, RFC 3875, PSGI).
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Server;
use JSON::PP ();
use Test::More;

my $server = Howdah::Test::Server->start(file => 't/apps/echo.psgi', options => ['--workers', 1]);

sub env_of {
    my $response = Howdah::Test::Client->ask($server, join "\r\n", @_, '', '');
    return
        eval { JSON::PP->new->decode($response->{body})->{env} }
        // {REFUSED => "$response->{status} $response->{error}"};
}

# A boolean of perl's is one in JSON, too, as newer perls and JSON::PP have it.
sub plain { my $value = shift; return ref $value ? !!$value : $value }

# Request target, and the keys that it makes.
my @targets = (
    ['3.2.1: origin form', '/a/b?c=d&e', {REQUEST_URI => '/a/b?c=d&e', PATH_INFO => '/a/b', QUERY_STRING => 'c=d&e'}],
    ['no query', '/a', {PATH_INFO => '/a', QUERY_STRING => ''}],
    ['empty query', '/a?', {REQUEST_URI => '/a?', PATH_INFO => '/a', QUERY_STRING => ''}],
    ['two question marks', '/a?b?c', {PATH_INFO => '/a', QUERY_STRING => 'b?c'}],
    [
        'RFC 3986 2.1: decoded', '/%41%2f%3f%20%c3%A9',
        {PATH_INFO => "/A/? \xc3\xa9", REQUEST_URI => '/%41%2f%3f%20%c3%A9'}
    ],
    ['decoded once', '/%2541', {PATH_INFO => '/%41'}],
    ['plus is a plus', '/a+b', {PATH_INFO => '/a+b'}],
    ['the query stays as it is', '/?a=%zz%00', {PATH_INFO => '/', QUERY_STRING => 'a=%zz%00'}],
    ['dots and double slashes stay', '//a/../b/./c//', {PATH_INFO => '//a/../b/./c//'}],
    ['3.2.2: absolute form', 'http://other:81/a?b', {PATH_INFO => '/a', QUERY_STRING => 'b', HTTP_HOST => 'other:81'}],
    ['3.2.2: without path', 'http://other', {PATH_INFO => '/', HTTP_HOST => 'other'}],
    [
        'RFC 9110 7.4: a scheme that is not that of the connection tells nothing',
        'https://other/a', {PATH_INFO => '/a', HTTP_HOST => 'other', 'psgi.url_scheme' => 'http', HTTPS => undef}
    ],
    ['3.2.2: scheme in capitals', 'HTTP://other/a', {PATH_INFO => '/a', HTTP_HOST => 'other'}],
);
for my $case (@targets) {
    my ($name, $target, $expected) = @$case;
    my $env = env_of("GET $target HTTP/1.1", 'Host: x');
    is_deeply {
        map { $_ => $env->{$_} } keys %$expected
    }, $expected, $name or diag explain $env;
}

subtest '3.2.4: asterisk form' => sub {
    my $env = env_of('OPTIONS * HTTP/1.1', 'Host: x');
    is $env->{REQUEST_METHOD}, 'OPTIONS';
    is $env->{REQUEST_URI}, '*';
    is $env->{PATH_INFO}, '', 'which names no path';
};

subtest 'keys that every request has' => sub {
    my $env      = env_of('GET / HTTP/1.1', 'Host: camel.example:8080');
    my $port     = $server->port;
    my %expected = (
        REQUEST_METHOD     => 'GET',
        SCRIPT_NAME        => '',
        SERVER_PROTOCOL    => 'HTTP/1.1',
        SERVER_PORT        => $port,
        REMOTE_ADDR        => '127.0.0.1',
        HTTP_HOST          => 'camel.example:8080',
        'psgi.url_scheme'  => 'http',
        'psgi.multithread' => '',
        'psgi.nonblocking' => '',
        'psgi.run_once'    => '',
    );
    is_deeply {
        map { $_ => plain($env->{$_}) } keys %expected
    }, \%expected or diag explain $env;
    ok $env->{'psgi.multiprocess'} && $env->{'psgi.streaming'}, 'true ones';
    ok $env->{$_}, $_ for 'psgix.input.buffered', 'psgix.harakiri', 'psgix.cleanup';
    like $env->{REMOTE_PORT}, qr/^\d+$/;
    ok length $env->{SERVER_NAME}, 'SERVER_NAME';
    ok !exists $env->{$_}, "no $_" for 'CONTENT_TYPE', 'CONTENT_LENGTH', 'HTTP_CONTENT_TYPE', 'HTTP_CONTENT_LENGTH';
};

# Header lines, and the keys that they make; undef for none.
my @headers = (
    ['RFC 3875 4.1.18: dashes', ['X-Forwarded-For: a'], {HTTP_X_FORWARDED_FOR => 'a'}],
    ['RFC 9110 5.1: any case', ['x-a: 1'], {HTTP_X_A => '1'}],
    ['RFC 9110 5.3: repeated', ['A: 1', 'B: x', 'a: 2', 'A: 3'], {HTTP_A => '1, 2, 3', HTTP_B => 'x'}],
    ['RFC 6265 5.4: cookies', ['Cookie: a=1', 'Cookie: b=2'], {HTTP_COOKIE => 'a=1; b=2'}],
    ['RFC 9110 5.5: spaces around', ["A: \t x y \t"], {HTTP_A => 'x y'}],
    ['empty value', ['A:'], {HTTP_A => ''}],
    ['underscores are dropped', ['X_User: evil', 'X-User: me'], {HTTP_X_USER => 'me'}],
    ['even alone', ['X_User: evil', 'Content_Length: 7'], {HTTP_X_USER => undef, CONTENT_LENGTH => undef}],
    ['CONTENT_TYPE', ['Content-Type: a/b', 'Content-Length: 0'], {CONTENT_TYPE => 'a/b', CONTENT_LENGTH => 0}],
    ['no HTTP_ for these', ['Content-Type: a/b'], {HTTP_CONTENT_TYPE => undef, HTTP_CONTENT_LENGTH => undef}],
    ['8-bit bytes stay bytes', ["A: \xe9"], {HTTP_A => "\xe9"}],
);
for my $case (@headers) {
    my ($name, $lines, $expected) = @$case;
    my $env = env_of('POST / HTTP/1.1', 'Host: x', @$lines);
    is_deeply {
        map { $_ => $env->{$_} } keys %$expected
    }, $expected, $name or diag explain $env;
}

subtest 'SERVER_PROTOCOL is the client’s' => sub {
    is env_of('GET / HTTP/1.0')->{SERVER_PROTOCOL}, 'HTTP/1.0';
    is env_of('GET / HTTP/1.0')->{HTTP_HOST}, undef;
};

done_testing;
