# The PROXY protocol: whose a connection is, said once by a proxy that does not speak HTTP, before TLS and all else.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Operator;
use Howdah::Test::Server;
use Howdah::Test::Tls;
use IO::Socket::INET ();
use Socket qw(inet_aton inet_pton AF_INET6);
use Test::More;
use Time::HiRes qw(sleep);

my $app = <<'APP';
sub {
    my $env  = shift;
    my @seen = map { length($env->{$_} // '') ? $env->{$_} : '-' }
        qw(REMOTE_ADDR REMOTE_PORT SERVER_NAME SERVER_PORT psgi.url_scheme);
    return [200, [], ["@seen\n"]];
}
APP
my $operator = Howdah::Test::Operator->new;
my $socket   = $operator->dir . '/app.sock';
my $log      = $operator->dir . '/access.log';
my $has_tls  = Howdah::Test::Tls->is_installed;
my @tls      = $has_tls ? (Howdah::Test::Tls->common->options, '-l', 'tls:127.0.0.1:0,proxy-protocol') : ();

sub start {
    my @options = @_;
    return Howdah::Test::Server->start(
        app     => $app,
        listen  => undef,
        env     => {TEST_OVER_TLS => undef},
        options => ['--workers', 1, '--access-log-format', '%a %{c}a %v:%p', '--access-log', $log, @options]
    );
}

my $server = start(
    '-l', '127.0.0.1:0,proxy-protocol', @tls, '-l', "$socket,proxy-protocol", '-l', '127.0.0.1:0',
    '--trusted-proxy', '127.0.0.0/8,unix', '--header-timeout', '2s', $operator->options
);
my @ports = map { /:(\d+)$/ } $server->urls;
my ($port, $open) = @ports[0, -1];
my $tls_port = $has_tls ? $ports[1] : undef;

sub packed {
    my ($command, $family, $said) = @_;
    return "\r\n\r\n\0\r\nQUIT\n" . pack 'CCn/a', $command, $family, $said;
}
my $four = inet_aton('192.0.2.1') . inet_aton('198.51.100.1') . pack 'nn', 4711, 443;
my $six  = inet_pton(AF_INET6, '2001:db8::1') . inet_pton(AF_INET6, '2001:db8::2') . pack 'nn', 4711, 443;
my $get  = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
my $last = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

# Header, and what the application sees: none for the listener's own.
my @CASES = (
    ['v1, TCP4', "PROXY TCP4 192.0.2.1 198.51.100.1 4711 443\r\n", '192.0.2.1 4711 198.51.100.1 443'],
    ['v1, TCP6', "PROXY TCP6 2001:db8::1 2001:db8::2 4711 443\r\n", '2001:db8::1 4711 2001:db8::2 443'],
    ['v1, UNKNOWN', "PROXY UNKNOWN\r\n"],
    ['v2, TCP4', packed(0x21, 0x11, $four), '192.0.2.1 4711 198.51.100.1 443'],
    ['v2, TCP6', packed(0x21, 0x21, $six), '2001:db8::1 4711 2001:db8::2 443'],
    ['v2, unix', packed(0x21, 0x31, "\0" x 216)],
    ['v2, LOCAL', packed(0x20, 0x00, '')],
    ['v2, more to say', packed(0x21, 0x11, $four . "\x04\0\x10" . 'x' x 16), '192.0.2.1 4711 198.51.100.1 443'],
    [
        'v2, client came by TLS', packed(0x21, 0x11, $four . "\x20\0\5\1\0\0\0\0"), '192.0.2.1 4711 198.51.100.1 443',
        'https'
    ],
);

# All that comes back on a connection which begins with these pieces.
sub said {
    my ($to, @pieces) = @_;
    my $client = Howdah::Test::Client->new($to);
    for (@pieces) { $client->write($_); sleep 0.02 if @pieces > 1 }
    return $client->rest;
}

sub seen {
    return join '', map { /^(\S+ \S+ \S+ \S+ \S+)$/mg } said(@_);
}

sub over_tls {
    my $header = shift;
    my $plain  = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $tls_port) or die $!;
    syswrite $plain, $header;
    my $secure = IO::Socket::SSL->start_SSL($plain, SSL_verify_mode => 0) or return 'no TLS';
    print {$secure} $last;
    my ($line) = (join '', <$secure>) =~ /^(\S+ \S+ \S+ \S+ \S+)$/m;
    return $line;
}

subtest 'each header, on each kind of listener' => sub {
    for (@CASES) {
        my ($what, $header, $ends, $scheme) = @$_;
        $scheme //= 'http';
        my ($tcp, $unix) = map { quotemeta($ends // $_) } '127.0.0.1 ', '- - localhost 80';
        like seen($port, $header . $last), qr/^$tcp.* $scheme$/, "$what: TCP";
        like seen($socket, $header . $last), qr/^$unix $scheme$/, "$what: Unix socket";
        like over_tls($header), qr/^$tcp.* https$/, "$what: before TLS" if $has_tls;
    }
};

subtest 'in pieces, and with requests behind it' => sub {
    for (@CASES[0, 4]) {
        my ($what, $header, $ends) = @$_;
        is seen($port, split(//, $header), $last), "$ends http", "$what: byte by byte";
        my @lines = said($port, $header . $get . $get . $last) =~ /^(\S+ \S+ \S+ \S+ \S+)$/mg;
        is_deeply \@lines, [("$ends http") x 3], "$what: three requests in one";
    }
};

subtest 'the access log has both ends, and the fields of a trusted proxy count behind it' => sub {
    my $header = "PROXY TCP4 127.0.0.9 198.51.100.1 4711 80\r\n";
    like seen($port, $header . $last =~ s/Host/X-Forwarded-For: 192.0.2.7\r\nHost/r), qr/^192\.0\.2\.7 -/,
        'told by 127.0.0.9';
    like seen($port, $CASES[0][1] . $last =~ s/Host/X-Forwarded-For: 192.0.2.7\r\nHost/r), qr/^192\.0\.2\.1 4711/,
        'not by a client';
    my $lines = sub { open my $in, '<', $log or die $!; my @lines = <$in>; return join '', @lines[-2, -1] };
    my $both  = "192.0.2.7 127.0.0.1 198.51.100.1:80\n192.0.2.1 127.0.0.1 198.51.100.1:443\n";
    ok $server->wait_until(sub { $lines->() eq $both }, 10), 'the client by %a, the proxy by %{c}a, SERVER_NAME by %v'
        or diag $lines->();
};

subtest 'what is no header is not answered' => sub {
    for (
        [$last, 'a request'],
        ["\x16\x03\x01\x02\x00\x01\x00", 'TLS'],
        ["PROXY TCP4 192.0.2.1 198.51.100.1 4711\r\n$last", 'a line that is too short'],
        ['PROXY UNKNOWN ' . 'x' x 200, 'a line without end'],
        [packed(0x21, 0x11, 'x') . $last, 'addresses that are too short'],
        [packed(0x21, 0x11, "\0" x 5000) . $last, 'a header that is too long'],
        [packed(0x33, 0x11, $four) . $last, 'a version that is not there yet'],
        ["$CASES[0][1]$CASES[0][1]$last", 'two headers'],
        )
    {
        my ($bytes, $what) = @$_;
        unlike said($port, $bytes), qr/ 200 OK/, $what;
    }
    ok $server->wait_for_log(qr/closed the connection of a proxy: the connection does not begin with a PROXY header/),
        'said why';
    ok $operator->status->{requests}{failures}{bad_request} >= 7, 'counted';
};

subtest 'a header that does not come in time' => sub {
    is said($port, $_), '', length . ' bytes of it' for '', 'PROXY TCP4 ';
    ok $operator->status->{requests}{failures}{read_timeout} >= 1, 'counted';
};

subtest 'a listener without it takes none' => sub {
    like said($open, $last), qr/^127\.0\.0\.1 .* http$/m;
    like said($open, $CASES[0][1] . $last), qr/^HTTP\/1\.1 400 /, 'nor is anybody believed';
};

subtest 'after a reload and an upgrade' => sub {
    for my $change (qw(reload upgrade)) {
        my $old = $operator->pid;
        is + ($operator->ask($change))[0], 0, $change;
        $operator->wait_for_end($old) if $change eq 'upgrade';
        is seen($port, $CASES[0][1] . $last), "$CASES[0][2] http", 'TCP';
        is seen($socket, $CASES[3][1] . $last), "$CASES[3][2] http", 'Unix socket';
        is over_tls($CASES[3][1]), "$CASES[3][2] https", 'TLS' if $has_tls;
        unlike said($port, $last), qr/ 200 OK/, 'and without it nothing';
    }
};

subtest 'from others nothing is taken' => sub {
    my $strict = start('-l', '127.0.0.1:0', '-l', "$socket.2", qw(--proxy-protocol --trusted-proxy 192.0.2.0/24));
    is said($_, $CASES[0][1] . $last), '', "at $_" for $strict->port, "$socket.2";
    ok $strict->wait_for_log(qr/closed a connection from 127\.0\.0\.1 .*--trusted-proxy does not name it/),
        'the log tells';
};

subtest 'who says nothing makes room for others, and keeps no server from its end' => sub {
    my @listen = ('-l', '127.0.0.1:0', $has_tls ? (Howdah::Test::Tls->common->options, '-l', 'tls:127.0.0.1:0') : ());
    my $full   = start(@listen, qw(--proxy-protocol --trusted-proxy 127.0.0.1 --max-connections 4 --header-timeout 1m));
    my @ports  = map { /:(\d+)$/ } $full->urls;
    my @silent = map { Howdah::Test::Client->new($_) } @ports, @ports, @ports, @ports;
    $_->write('PROXY TCP4 ') for @silent;
    is seen($ports[0], $CASES[0][1] . $last), "$CASES[0][2] http", 'another is served';
    is $full->stop, 0, 'the server stops';
};

done_testing;
