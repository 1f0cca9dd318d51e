# How responses are framed (RFC 9112 section 6, RFC 9110 8.6), and what applications get wrong about it.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Server;
use Test::More;

my $server = Howdah::Test::Server->start(file => 't/apps/shapes.psgi', options => ['--workers', 2]);

sub ask {
    my ($path, $method, $version) = @_;
    my $client = Howdah::Test::Client->new($server);
    $client->write(sprintf "%s %s HTTP/%s\r\nHost: x\r\n\r\n", $method // 'GET', $path, $version // '1.1');
    my $response = $client->response(head => ($method // '') eq 'HEAD');
    my %first    = map { $_ => $response->{headers}{$_}[0] } keys %{$response->{headers}};
    return ($client, $response, \%first);
}

# Path, then Content-Length or chunked, and the body, as HTTP/1.1 sees them.
my @framed = (
    ['8.6: an array has its length', '/array', 11, 'onetwothree'],
    ['a length given is kept', '/given', 5, 'given'],
    ['8.6: an empty body', '/nothing', 0, ''],
    ['a delayed response is whole', '/delayed', 7, 'delayed'],
    ['15.3.6: 205 has no content', '/205', 0, ''],
    ['7.1: a stream is chunked', '/stream', 'chunked', 'onetwothree'],
    ['7.1: an empty write does not end it', '/stream-empty', 'chunked', 'onetwo'],
    ['a stream with a length', '/stream-given', 6, 'onetwo'],
    ['more than any buffer', '/big', 3_000_000, 'x' x 3_000_000],
    ['a stream of more than any buffer', '/stream-big', 'chunked', 'y' x 2_800_000],
);
for my $case (@framed) {
    my ($name, $path, $framing, $body) = @$case;
    my ($client, $response, $headers) = ask($path);
    is $response->{error}, '', $name;
    is $headers->{'content-length'} // $headers->{'transfer-encoding'}, $framing;
    is scalar(grep { defined } @$headers{qw(content-length transfer-encoding)}), 1, 'one of both (RFC 9112 6.2)';
    ok $response->{body} eq $body, 'body' or diag length $response->{body};
    $client->write("GET /given HTTP/1.1\r\nHost: x\r\n\r\n");
    is $client->response->{body}, 'given', 'and the connection is in step';

    my ($old, $same, $first) = ask($path, 'GET', '1.0');
    ok !defined $first->{'transfer-encoding'}, 'no chunks for HTTP/1.0 (RFC 9112 6.1)';
    ok $same->{body} eq $body && $old->is_closed, 'the end of the connection is its end';

    my ($head, $nothing, $fields) = ask($path, 'HEAD');
    is $nothing->{status}, $response->{status}, 'HEAD (RFC 9110 9.3.2)';
    $head->write("GET /given HTTP/1.1\r\nHost: x\r\n\r\n");
    is $head->response->{body}, 'given', 'sends no body';
    my $length = $framing || undef;    # of an empty body nobody knows whether that of a GET is as well (RFC 9110 8.6)
    is $fields->{'content-length'}, $length, 'and its length' if $framing ne 'chunked' && $path !~ /stream|205/;
}

subtest 'handles' => sub {
    is + (ask('/handle'))[1]{body}, 'from a handle', 'in memory';
    is + (ask('/object'))[1]{body}, 'getlineobject', 'with getline';
    my ($client, $response, $headers) = ask('/file');
    like $response->{body}, qr/^# Responses of every shape/, 'real file';
    is $headers->{'content-length'} // '', -s 't/apps/shapes.psgi', 'whose length is known';
};

subtest '15.3.5, 15.3.6, 15.4.5: 204, 205 and 304 have no body, whatever the application returns' => sub {
    for my $path ('/204', '/304', '/204-body', '/205-body', '/304-body') {
        my ($client, $response, $headers) = ask($path);
        is $response->{status}, substr($path, 1, 3), $path;
        ok !defined $headers->{'transfer-encoding'}, 'no coding (RFC 9112 6.1)';
        ok !defined $headers->{'content-length'}, 'no length in 204 (RFC 9110 8.6)' if $path =~ /204/;
        is $headers->{'content-length'}, 0, 'that there is none is said of 205' if $path =~ /205/;
        $client->write("GET /given HTTP/1.1\r\nHost: x\r\n\r\n");
        is $client->response->{body}, 'given', 'in step';
    }
};

subtest 'a body shorter than its length closes the connection, cut short, and is logged' => sub {
    for my $path ('/short', '/stream-short') {
        my ($client, $response) = ask($path);
        is $response->{error}, 'body cut short', $path;
        is $response->{body}, 'short';
    }
    ok $server->wait_for_log(qr/Content-Length 10 but a body of 5 bytes/), 'logged';
};

subtest 'a body longer than its length is cut there, logged, and the connection closed' => sub {
    for my $path ('/long', '/stream-long') {
        my ($client, $response) = ask($path);
        is $response->{body}, 'long', $path;
        is $client->rest, '', 'no surplus byte on the wire';
    }
    ok $server->wait_for_log(qr/Content-Length 4 but a body of 13 bytes/), 'logged';
};

subtest 'Date and Server' => sub {
    my (undef, $response, $headers) = ask('/array');
    like $headers->{date}, qr/^\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT$/, 'Date (RFC 9110 6.6.1)';
    like $headers->{server}, qr/^Howdah/, 'Server (RFC 9110 10.2.4)';
    (undef, $response, $headers) = ask('/date');
    is_deeply [map { scalar @{$response->{headers}{$_}} } 'date', 'server'], [1, 1],
        "the application's own stand alone";
    is $headers->{server}, 'own';
    is_deeply + (ask('/cookies'))[1]{headers}{'set-cookie'}, ['a=1', 'b=2'], 'repeated fields stay apart';
    is + (ask('/odd'))[1]{status}, 799, 'unknown status';

    my $silent = Howdah::Test::Server->start(file => 't/apps/shapes.psgi', options => ['--no-server-header']);
    my $answer = Howdah::Test::Client->ask($silent, "GET /array HTTP/1.1\r\nHost: x\r\n\r\n");
    ok !$answer->{headers}{server}, '--no-server-header';
};

done_testing;
