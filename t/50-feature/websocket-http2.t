# WebSocket by HTTP/2 (RFC 8441): a client opens a stream by CONNECT, and the application sees the request of HTTP/1.1 that
# means the same, takes psgix.io, and is answered for as a stream is.
use strict;
use warnings;
use lib 't/lib';

use File::Temp ();
use Howdah::Test::Frames;
use Howdah::Test::Server;
use Howdah::Test::Tls;
use Howdah::Test::Tunnel;
use Howdah::Test::WebSocket;
use JSON::PP qw(decode_json);
use Test::More;

use constant {PROTOCOL_ERROR => 1, INTERNAL_ERROR => 2};

my $app = <<'PSGI';
my @switch = (Upgrade => 'websocket');
my $head   = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    . "Sec-WebSocket-Accept: x\r\nSec-WebSocket-Protocol: chat\r\nX-Mine: yes\r\n\r\n";
my %raw = (
    '/echo'   => sub { my $io = shift; print {$io} $head; while (defined(my $line = <$io>)) { print {$io} ">$line" } },
    '/slowly' => sub { my $io = shift; for (split //, "HTTP/1.1 103 x\r\n\r\n${head}mine") { print {$io} $_; select undef, undef, undef, 0.001 } },
    '/env'    => sub {
        my ($io, $env) = @_;
        require JSON::PP;
        print {$io} $head, JSON::PP::encode_json({map { $_ => $env->{$_} } grep { !ref $env->{$_} } keys %$env}), "\n";
    },
    '/absent' => sub { print {$_[0]} "HTTP/1.1 404 Not Found\r\nContent-Length: 6\r\n\r\nabsent and what is too much"; sleep 1 },
    '/until'  => sub { print {$_[0]} "HTTP/1.1 403 Forbidden\r\nX-A: b\r\n\r\nup to the end" },
    '/less'   => sub { print {$_[0]} "HTTP/1.1 404 Not Found\r\nContent-Length: 60\r\n\r\nless" },
    '/empty'  => sub { print {$_[0]} "HTTP/1.1 304 Not Modified\r\n\r\n" },
    '/good'   => sub { print {$_[0]} "HTTP/1.1 200 OK\r\n\r\nfine" },
    '/chat'   => sub { print {$_[0]} "HTTP/1.1 101 x\r\nUpgrade: chat\r\n\r\n"; sleep 1 },
    '/other'  => sub { print {$_[0]} "hello\r\n\r\n"; sleep 1 },
    '/coded'  => sub { print {$_[0]} "HTTP/1.1 404 x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" },
    '/folded' => sub { print {$_[0]} "HTTP/1.1 101 x\r\nUpgrade: websocket\r\n y\r\n\r\n" },
    '/large'  => sub { print {$_[0]} "HTTP/1.1 101 x\r\n" . "A: b\r\n" x 20_000 . "\r\n" },
    '/part'   => sub { print {$_[0]} "HTTP/1.1 101 x\r\nUpgr" },
    '/none'   => sub { },
    '/killed' => sub { kill KILL => $$; sleep 9 },
    '/late'   => sub { print {$_[0]} $head, 'mine'; kill KILL => $$; sleep 9 },
    '/dies'   => sub { print {$_[0]} $head, 'mine'; die "in its protocol\n" },
    '/half'   => sub { print {$_[0]} $head, 'mine'; shutdown $_[0], 1; local $/; warn 'and then: ' . readline($_[0]) . "\n" },
);
my %delayed = (
    '/writer' => sub { my $writer = $_[0]->([101, \@switch]); $writer->write($_) for 1 .. 3; $writer->close },
    '/both'   => sub {
        my ($respond, $env) = @_;
        my $writer = $respond->([101, [@switch, 'Sec-WebSocket-Accept' => 'x', 'X-Mine' => 'yes']]);
        my $io     = $env->{'psgix.io'};
        while (defined(my $line = <$io>)) { $writer->write("<$line"); print {$io} ">$line" }
    },
    '/wrong'  => sub { $_[0]->([101, [Upgrade => 'chat'], []]) },
    '/after'  => sub { fileno $_[1]{'psgix.io'}; $_[0]->([402, [], ['pay']]) },
    '/behind' => sub { print {$_[1]{'psgix.io'}} $head, 'mine'; $_[0]->([200, [], ['nobody wants this']]) },
);
my %plain = (
    '/ok'     => [200, [], ['served as ever']],
    '/refuse' => [403, ['Content-Type' => 'text/plain'], ['not you']],
    '/away'   => [302, [Location => '/echo'], []],
    '/needed' => [426, [Upgrade => 'websocket'], ['needed']],
    '/switch' => [101, \@switch, []],
);
sub {
    my $env  = shift;
    my $path = $env->{PATH_INFO};
    return sub { my $io = $env->{'psgix.io'}; fileno $io; $raw{$path}->($io, $env) } if $raw{$path};
    return sub { $delayed{$path}->($_[0], $env) } if $delayed{$path};
    return $plain{$path} // [404, [], []];
};
PSGI

# Path, what the client sends, status, what comes, and what the log says.
my @cases = (
    ['/echo', "one\ntwo\n", 200, ">one\n>two\n"],
    ['/slowly', '', 200, 'mine'],
    ['/absent', '', 404, 'absent'],
    ['/until', '', 403, 'up to the end'],
    ['/empty', '', 304, ''],
    ['/good', '', 502, "502 Bad Gateway\n", qr{no answer to a WebSocket client: its status says neither}],
    [
        '/chat', '', 502, "502 Bad Gateway\n",
        qr{it switches to another protocol than websocket; answered 502 to GET /chat}
    ],
    ['/other', '', 502, "502 Bad Gateway\n", qr{it does not begin with "HTTP/1\.1 "}],
    ['/coded', '', 502, "502 Bad Gateway\n", qr{it has a Transfer-Encoding}],
    ['/folded', '', 502, "502 Bad Gateway\n", qr{a line of it is no field}],
    ['/large', '', 502, "502 Bad Gateway\n", qr{it has no end within 64 KiB}],
    ['/part', '', 502, "502 Bad Gateway\n", qr{it ends before its head does}],
    ['/none', '', 502, "502 Bad Gateway\n", qr{it ends before its head does; answered 502 to GET /none}],
    ['/killed', '', 502, "502 Bad Gateway\n"],
    ['/late', '', 200, 'mine'],
    ['/dies', '', 200, 'mine', qr{GET /dies: the application failed: in its protocol}],
    ['/half', 'words behind', 200, 'mine', qr{and then: words behind}],
    ['/writer', '', 200, '123'],
    ['/both', "one\n", 200, "<one\n>one\n"],
    ['/wrong', '', 500, "500 Internal Server Error\n", qr{101, but the front does not send it: .*another protocol}],
    ['/after', '', 402, 'pay'],
    ['/behind', '', 200, 'mine'],
    ['/switch', '', 200, '', qr{the response was 101, but psgix\.io was not used}],
    ['/ok', '', 501, "501 Not Implemented\n"],
    ['/refuse', '', 403, 'not you'],
    ['/away', '', 302, ''],
    ['/needed', '', 426, 'needed'],
    ['/health', '', 501, "501 Not Implemented\n"],
);

sub open_to {
    my ($frames, $path, %how) = @_;
    return Howdah::Test::Tunnel->new($frames, $frames->{next} = ($frames->{next} // -1) + 2, $path, %how);
}

sub lines_of {
    my $file = shift;
    open my $in, '<', $file or die $!;
    return my @lines = <$in>;
}

sub everything {
    my $log = File::Temp->new;
    my @log = (
        '--access-log', "$log", '--access-log-format',
        '%r %>s %{X-Mine}o %{Sec-WebSocket-Protocol}o %{Sec-WebSocket-Accept}o %{Upgrade}o %{Connection}o %{Date}o'
    );
    my $server =
        Howdah::Test::Server->start(app => $app, options => ['--workers', 6, '--health-path', '/health', @log]);
    my $frames = Howdah::Test::Frames->new($server);

    for my $case (@cases) {
        my ($path, $said, $status, $comes, $logged) = @$case;
        my $tunnel = open_to($frames, $path);
        is $tunnel->status, $status, "$path: $status";
        $tunnel->write($said) if length $said;
        $tunnel->shut;
        is $tunnel->rest, $comes, '... what comes';
        ok !$tunnel->broken, '... to its end';
        ok $server->wait_for_log($logged), '... and the log says what is wrong' if $logged;
    }
    is open_to($frames, '/less')->broken, INTERNAL_ERROR, '/less: a response that is shorter than it says';
    ok !$frames->is_closed(0), 'the connection is as before';

    subtest 'what the application sees' => sub {
        my $tunnel = open_to(
            $frames, '/env?a=b',
            fields => [['sec-websocket-key', 'theirs'], ['origin', 'http://o'], ['cookie', 'c=d']]
        );
        my $env    = decode_json($tunnel->line);
        my %wanted = (
            REQUEST_METHOD => 'GET', SERVER_PROTOCOL => 'HTTP/1.1', REQUEST_URI => '/env?a=b', QUERY_STRING => 'a=b',
            HTTP_HOST      => 'x', HTTP_UPGRADE      => 'websocket', HTTP_CONNECTION => 'Upgrade',
            HTTP_SEC_WEBSOCKET_VERSION => 13,
            HTTP_ORIGIN       => 'http://o', HTTP_COOKIE => 'c=d', CONTENT_LENGTH => undef, HTTP_PROTOCOL => undef,
            'psgi.url_scheme' => $ENV{TEST_OVER_TLS} ? 'https' : 'http',
        );
        is $env->{$_}, $wanted{$_}, $_ for sort keys %wanted;
        like $env->{HTTP_SEC_WEBSOCKET_KEY}, qr{^[\w+/]{22}==$}, 'a key as libraries want it';
    };

    subtest 'requests that are none' => sub {
        my @head = (
            [':method', 'CONNECT'], [':protocol', 'websocket'], [':scheme', 'http'], [':path', '/echo'],
            [':authority', 'x']
        );
        my $less = sub {
            my $name = shift;
            return [grep { $_->[0] ne $name } @head];
        };
        for (
            ['no path', $less->(':path')],
            ['no scheme', $less->(':scheme')],
            ['no CONNECT', [[':method', 'GET'], @head[1 .. 4]]],
            ['a path without :protocol', $less->(':protocol')],
            ['another scheme', [@head[0, 1], [':scheme', 'wss'], @head[3, 4]]],
            ['a length', [@head, ['content-length', '0']]],
            ['an Upgrade', [@head, ['upgrade', 'websocket']]],
            ['fields behind the stream', \@head, 1],
            )
        {
            my ($what, $fields, $trailer) = @$_;
            my $stream = $frames->{next} += 2;
            my $words  = join '', map {
                "\0" . join '',
                    map { chr(length) . $_ } @$_
            } @$fields;
            $frames->send(HEADERS => 4, $stream, $words);
            $frames->send(HEADERS => 5, $stream, "\0\1a\1b") if $trailer;
            is $frames->response($stream)->{reset}, PROTOCOL_ERROR, $what;
        }
        my $other = open_to($frames, '/echo', protocol => 'connect-udp');
        is $other->status, 501, 'another protocol is not spoken';
        ok open_to($frames, '/echo')->status == 200, 'the connection goes on';
    };

    $frames->socket->close;
    is $server->stop, 0, 'it stops';

    # One that was reset before it was answered has no status, and may be the last.
    my %lines = map { m{^\S+ (\S+) \S+ \d} ? ($1 => $_) : () } lines_of("$log");
    like $lines{'/echo'}, qr{^GET /echo HTTP/2 200 yes chat - - - \w+, }, 'what a line of the access log has';
    like $lines{'/both'}, qr{^GET /both HTTP/2 200 yes - - - - \w+, }, '... of a response of 101';
    like $lines{'/needed'}, qr{^GET /needed HTTP/2 426 - - - - - }, '426 without its Upgrade';
    return;
}

Howdah::Test::Tls::either_way(\&everything);

subtest 'it is announced where it can be had' => sub {
    for ([['--workers', 2], 1], [['--workers', 2, '--max-upgrades', 0], undef]) {
        my ($options, $announced) = @$_;
        my $server = Howdah::Test::Server->start(app => $app, options => $options);
        my $frames = Howdah::Test::Frames->new($server);
        my $tunnel = open_to($frames, '/echo');
        is $tunnel->broken, PROTOCOL_ERROR, 'who asks all the same has made a mistake' if !$announced;
        is $tunnel->status, 200, 'it is' if $announced;
        is $frames->setting(8), $announced, "@$options";
    }
};

subtest 'frames of WebSocket' => sub {
    plan skip_all => 'needs Protocol::WebSocket' if !Howdah::Test::WebSocket->is_installed;
    my $server = Howdah::Test::Server->start(file => 'examples/websocket.psgi', options => ['--workers', 3]);
    my $frames = Howdah::Test::Frames->new($server);
    my @both   = map { Howdah::Test::WebSocket->over(open_to($frames, '/')) } 1, 2;
    my $large  = join '', map { pack 'N', $_ * 2654435761 % 4294967296 } 1 .. 262_144;
    for my $round (
        ['text', "\xc3\xa4", 'text'], ['binary', $large, 'binary'], ['binary', '', 'binary'],
        ['ping', 'there?', 'pong']
        )
    {
        my ($type, $bytes, $answer) = @$round;
        $_->say($type, $bytes) for @both;
        for my $socket (@both) {
            my ($got, $echo) = $socket->hear;
            ok $got eq $answer && $echo eq $bytes,
                "$type of " . length($bytes) . ' bytes, on two streams beside each other';
        }
    }
    $both[0]->say(close => pack 'n', 1000);
    is_deeply [$both[0]->hear], ['close', pack 'n', 1000], 'a close is answered';
    ok $both[0]->client->is_closed, 'then that stream is over';
    $both[1]->say(text => 'still there');
    is(($both[1]->hear)[1], 'still there', 'and the other is not');
    unlike $server->log, qr/ERROR|WARN/, 'nothing to complain of';
};

subtest 'an application that would have a stream whose client has broken it off' => sub {
    my $dir = File::Temp->newdir;
    my $app =
        "sub { my \$env = shift; sub { warn 'asked'; for (1 .. 1000) { last if -e '$dir/go'; select undef, undef, undef, 0.02 } "
        . "fileno \$env->{'psgix.io'}; \$_[0]->([200, [], []]) } }";
    my $server = Howdah::Test::Server->start(app => $app, options => ['--workers', 1, '--health-path', '/health']);
    my $frames = Howdah::Test::Frames->new($server);
    open_to($frames, '/late');
    ok $server->wait_for_log(qr/asked/), 'it runs';
    $frames->send('RST_STREAM', 0, 1, pack 'N', 8);
    $frames->request(3, '/health');
    is $frames->response(3)->{status}, 200, 'the front has read that it is broken off';
    open my $go, '>', "$dir/go" or die $!;
    ok $server->wait_for_log(qr{ INFO .* GET /late: the client has left}), 'it is told of the client';
    unlike $server->log, qr/ ERROR /, 'and has not failed';
};

done_testing;
