# The server ends a connection behind a response while its client has sent more requests already. What has not been read
# when a socket is closed resets the connection, and the end of the response would be lost (RFC 9112 9.6).
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Operator;
use Howdah::Test::Server;
use Socket qw(SOL_SOCKET SO_RCVBUF);
use Test::More;
use Time::HiRes qw(sleep);

my $length = 8_000_000;
my $app    = <<"PSGI";
my \$body = 'b' x $length;
sub {
    my \$env  = shift;
    my \@more = \$env->{QUERY_STRING} eq 'close' ? (Connection => 'close') : ();
    return sub {
        my \$writer = shift->([200, ['Content-Length', $length, \@more]]);
        \$writer->write(\$body);
        \$writer->close;
    } if \$env->{PATH_INFO} eq '/written';
    return sub {
        my \$writer = shift->([200, ['Content-Length', 4]]);
        \$writer->write('la');
        select undef, undef, undef, 0.8;
        \$writer->write('te');
        \$writer->close;
    } if \$env->{PATH_INFO} eq '/late';
    return [200, \\\@more, [\$body]];
};
PSGI

for my $case (
    ['the last request that a connection may have', '', sub { }, '--keepalive-requests', 1],
    ['a server that keeps no connections', '', sub { }, '--disable-keepalive'],
    ['a response that says so', '?close', sub { }],
    ['the end of the server', '', sub { $_[0]->signal('TERM') }],
    ['a new program', '', sub { $_[1]->ask('upgrade') }],
    )
{
    my ($why, $query, $change, @options) = @$case;
    for my $path ('/whole', '/written') {
        my $operator = Howdah::Test::Operator->new;
        my $server =
            Howdah::Test::Server->start(app => $app, options => ['--workers', 1, $operator->options, @options]);
        my $client  = Howdah::Test::Client->new($server);
        my $request = "GET $path$query HTTP/1.1\r\nHost: x\r\n\r\n";
        $client->write(substr $request, 0, 9);
        sleep 0.1;
        $change->($server, $operator);
        $client->write(substr $request, 9);
        sleep 0.1;
        $client->write($request);
        my $response = $client->response;
        my $had      = join ' ', @$response{qw(status error)}, length $response->{body};
        is $had, "200  $length", "$path: $why: what was asked for first is whole";
    }
}

# A connection that was promised to be kept before the server began to leave, and comes to rest after others had their time.
for my $case (['TERM', sub { $_[0]->signal('TERM') }], ['upgrade', sub { $_[1]->ask('upgrade') }]) {
    my ($what, $change) = @$case;
    my $operator = Howdah::Test::Operator->new;
    my $server   = Howdah::Test::Server->start(app => $app, options => ['--workers', 1, $operator->options]);
    my $client   = Howdah::Test::Client->new($server);
    my $request  = "GET /late HTTP/1.1\r\nHost: x\r\n\r\n";
    $client->write($request);
    sleep 0.2;
    $change->($server, $operator);
    my $first = $client->response;
    is_deeply [@$first{qw(status body)}, $first->{headers}{connection}], [200, 'late', undef],
        "$what: it is to be kept";
    sleep 0.1;
    $client->write($request);
    my $second = $client->response;
    is_deeply [@$second{qw(status body)}, $second->{headers}{connection}], [200, 'late', ['close']],
        '... and has its time for another request';
}

# The client takes its time over what lies in the kernel, and sends something long after the server's last byte.
{
    my $server  = Howdah::Test::Server->start(app => $app, options => ['--workers', 1, '--keepalive-requests', 1]);
    my $client  = Howdah::Test::Client->new($server);
    my $request = "GET /whole HTTP/1.1\r\nHost: x\r\n\r\n";
    setsockopt $client->socket, SOL_SOCKET, SO_RCVBUF, 65_536;
    $client->write($request);
    my $had = $client->take(7_000_000 - 20 * 50_000);
    for my $turn (1 .. 20) {
        sleep 0.2;
        $client->write($request) if $turn > 15;
        $had .= $client->take(50_000);
    }
    $had .= $client->rest;
    is length($had) - index($had, "\r\n\r\n") - 4, $length, 'a client that is slow with the end has it, too';
}

# They take longer over that than they are kept for, and ask again.
{
    my $request = "GET /whole HTTP/1.1\r\nHost: x\r\n\r\n";
    my @slow;
    for my $case (['an upgrade', 60, sub { $_[0]->ask('upgrade') }], ['--keepalive-timeout', 1, sub { }]) {
        my ($what, $kept, $change) = @$case;
        my $operator = Howdah::Test::Operator->new;
        my @options  = ('--workers', 1, '--keepalive-timeout', $kept, $operator->options);
        my $server   = Howdah::Test::Server->start(app => $app, options => \@options);
        push @slow, {what => $what, change => $change, operator => $operator, server => $server};
    }

    # Nobody is kept waiting meanwhile who has begun.
    for my $slow (@slow) {
        my $client = $slow->{client} = Howdah::Test::Client->new($slow->{server});
        setsockopt $client->socket, SOL_SOCKET, SO_RCVBUF, 65_536;
        $client->write($request);
        $slow->{had} = $client->take(6_000_000);
        $slow->{change}->($slow->{operator});
    }
    for (1 .. 32) {
        sleep 0.2;
        $_->{had} .= $_->{client}->take(50_000) for @slow;
    }
    for my $slow (@slow) {
        my ($client, $had) = @$slow{qw(client had)};
        $client->take($length + index($had, "\r\n\r\n") + 4 - length $had);
        $client->write($request);
        my $response = $client->response;
        is join(' ', @$response{qw(status error)}, length $response->{body}), "200  $length",
            "$slow->{what}: who is slow with a response can ask again";
    }
}

# One that writes all of its body before it looks, as simple ones do.
{
    my $server = Howdah::Test::Server->start(app => $app, options => ['--workers', 1, '--max-body-size', '1m']);
    my $client = Howdah::Test::Client->new($server);
    $client->write("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4000000\r\n\r\n");
    my $sent = grep { sleep 0.1; $client->write('x' x 100_000) } 1 .. 40;
    is $sent, 40, 'a client whose body is too large can send it';
    is $client->response->{status}, 413, '... and hears of it';
}

done_testing;
