# The end of a connection comes with the last of its response, in one segment where the client takes all of it.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Server;
use Howdah::Test::Tls;
use IO::Socket qw(IPPROTO_TCP);
use Socket qw(TCP_INFO);
use Test::More;

# How many segments of the server's this side has received, the answer to its SYN and what only acknowledges among them:
# tcpi_segs_in of struct tcp_info (linux/tcp.h).
sub segments {
    my $client = shift;
    return unpack 'x140 L', getsockopt $client->socket, IPPROTO_TCP, TCP_INFO;
}

my $app = <<'PSGI';
sub {
    my $env = shift;
    my ($kind, $length) = $env->{PATH_INFO} =~ m{/(\w+)/(\d+)};
    my $body = 'x' x $length;
    return [200, [], [$body]] if $kind eq 'whole';
    return [200, ['Content-Length' => $length], do { open my $in, '<', \$body or die $!; $in }] if $kind eq 'handle';
    return sub { my $writer = $_[0]->([200, []]); $writer->write($body); $writer->close } if $kind eq 'stream';
    return [500, [], []];
};
PSGI

sub request {
    my ($path, %how) = @_;
    my $fields = join '', map { "$_\r\n" } @{$how{fields} // []};
    return sprintf "%s %s HTTP/%s\r\nHost: x\r\n%s\r\n", $how{method} // 'GET', $path, $how{version} // '1.1', $fields;
}

my $close = ['Connection: close'];

subtest 'in one segment' => sub {
    my $server = Howdah::Test::Server->start(app => $app);
    for my $length (0, 11, 4000, 16_000) {
        my $least = 99;
        for (1 .. 10) {
            my $client = Howdah::Test::Client->new($server);
            $client->write(request("/whole/$length", fields => $close));
            my $response = $client->response;
            is length $response->{body}, $length, "all $length bytes" if $_ == 1;
            ok $client->is_closed, 'then the end' if $_ == 1;
            my $segments = segments($client);
            $least = $segments if $segments < $least;
        }

        # The answer to SYN, the acknowledgement of the request, the response with the end.
        cmp_ok $least, '<=', 3, "... in one segment";
    }
};

# What is sent, to be followed by the end; what it is for.
my @ends = (
    [request('/whole/11', fields => $close)                        => 1, 'HTTP/1.1'],
    [request('/whole/11', version => '1.0')                        => 1, 'HTTP/1.0'],
    [request('/whole/11') . request('/whole/12', fields => $close) => 2, 'pipelined'],
    [request('/whole/11', fields     => $close) . request('/whole/12') => 1, 'more than is asked for'],
    [request('/whole/11', fields     => $close, method => 'HEAD')      => 1, 'HEAD', head => 1],
    [request('/handle/11', fields    => $close)                        => 1, 'a handle'],
    [request('/stream/11', fields    => $close)                        => 1, 'a stream'],
    [request('/whole/300000', fields => $close)                        => 1, 'much'],
    [request('/whole/11', fields     => [@$close, 'Content-Length: 3'], method => 'POST') . 'abc' => 1, 'a body'],
    ["nonsense\r\n\r\n" => 1, 'refused', status => 400],
);

Howdah::Test::Tls::either_way(sub {
    my $server = Howdah::Test::Server->start(app => $app);
    for my $end (@ends) {
        my ($bytes, $responses, $what, %how) = @$end;
        for my $shuts (0, 1) {
            my $client = Howdah::Test::Client->new($server);
            $client->write($bytes);
            $client->shut if $shuts;
            my @got = map { $client->response(head => $how{head}) } 1 .. $responses;
            is join(' ', map { "$_->{status}$_->{error}" } @got), join(' ', ($how{status} // 200) x $responses),
                $what . ($shuts ? ', from a client that has ended its side' : '');
            ok $client->is_closed, '... then the end';
        }
    }

    # A client that takes nothing for a while has all of it later, and the end.
    my $slow = Howdah::Test::Client->new($server);
    $slow->write(request('/whole/20000000', fields => $close));
    sleep 1;
    is length $slow->response->{body}, 20_000_000, 'a client that waits';
    ok $slow->is_closed, '... has the end too';
});

# A client of TLS that never says its end holds its place, and a server that stops, for two seconds at most.
SKIP: {
    skip 'needs IO::Socket::SSL and openssl', 1 if !Howdah::Test::Tls->is_installed;
    local $ENV{TEST_OVER_TLS} = 1;
    subtest 'a client that never ends its side' => sub {
        my $server = Howdah::Test::Server->start(app => $app, options => ['--max-connections', 1]);
        my @silent;
        for my $turn ('the first', 'the next, when there is room') {
            my $begun = time;
            push @silent, Howdah::Test::Client->new($server);
            $silent[-1]->write(request('/whole/11', fields => $close));
            is $silent[-1]->response->{status}, 200, $turn;
            ok $silent[-1]->is_closed, '... has the end';
            cmp_ok time - $begun, '<', 10, '... in time';
        }
        my $begun = time;
        is $server->stop, 0, 'and the server stops';
        cmp_ok time - $begun, '<', 10, '... in time, with 30 s for what is under way';
    };
}

done_testing;
