# Handshakes that clients do not finish: bounded in time and number, and nobody else waits for them.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Server;
use Howdah::Test::Tls;
use IO::Socket::INET ();
use Test::More;
use Time::HiRes qw(sleep time);

plan skip_all => 'needs IO::Socket::SSL and openssl' if !Howdah::Test::Tls->is_installed;

my $tls    = Howdah::Test::Tls->new;
my $server = Howdah::Test::Server->start(
    app     => 'sub { [200, [], ["hello"]] }',
    listen  => undef,
    options => [
        qw(--workers 1 -l tls:127.0.0.1:0 -l 127.0.0.1:0 --tls-handshakes 4 --tls-handshake-timeout 3s),
        '--metrics-path', '/metrics', $tls->options
    ]
);
my ($secure, $plain) = map { /:(\d+)$/ } $server->urls;

sub beginning {
    my $bytes  = shift;
    my $socket = IO::Socket::INET->new("127.0.0.1:$secure") or die $!;
    syswrite $socket, $bytes;
    return $socket;
}

# Seconds until the server ends the connection.
sub lasts {
    my ($socket, $start) = (shift, time);
    1 while IO::Select->new($socket)->can_read(10) && sysread $socket, my $some, 4096;
    return time - $start;
}

sub answer {
    my $port = shift;
    my $socket =
        $port == $secure
        ? Howdah::Test::Tls::connect_to($port, Timeout => 90)
        : IO::Socket::INET->new("127.0.0.1:$port");
    return 'no connection' if !$socket;
    print {$socket} "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    return join '', <$socket>;
}

my $before = $server->descriptors_at_rest;

# The beginning of a greeting: a record of 512 bytes, of which five come.
my $greeting = "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
cmp_ok lasts(beginning($greeting)), '<', 8, 'a client that stops within its greeting has its time and no more';
for (
    ["\x16\x03\x01\xff\xff" . 'x' x 100, 'a record too long'], ["\x80" x 50, 'no TLS'],
    ["\x16\x03\x01\x00\x00", 'an empty record']
    )
{
    my ($bytes, $what) = @$_;
    cmp_ok lasts(beginning($bytes)), '<', 8, "$what is refused";
}
my ($looks, $most, $end) = (20, 0, time + 10);
sleep 0.02 while $server->descriptors > $before && time < $end;
my @stuck = map { beginning($greeting) } 1 .. 12;
$end = time + 10;
while ($looks && time < $end) {
    my $now = $server->descriptors - $before;
    $most = $now if $now > $most;
    $looks-- if $most >= 4;
    sleep 0.02;
}
is $most, 4, 'as many are let in as may have a handshake under way';
like answer($plain), qr{^HTTP/1\.1 200 }, 'plain connections go on while many are stuck';
my $start = time;
like answer($secure), qr{^HTTP/1\.1 200 }, 'and others come through: who says nothing has to go';
cmp_ok time - $start, '<', 15, '... soon';
like answer($plain), qr/^howdah_tls_handshakes_total\{result="failed"\} [1-9]/m, 'failed ones are counted';
is $server->stop, 0, 'and the server stops';

subtest 'a crowd that says nothing, and would for long' => sub {
    my $server = Howdah::Test::Server->start(
        app     => 'sub { [200, [], ["hello"]] }',
        listen  => undef,
        options => [
            qw(--workers 1 -l tls:127.0.0.1:0 -l 127.0.0.1:0 --tls-handshakes 16 --tls-handshake-timeout 600s),
            '--metrics-path', '/metrics', $tls->options
        ]
    );
    ($secure, $plain) = map { /:(\d+)$/ } $server->urls;
    my @crowd   = map { beginning($greeting) } 1 .. 160;
    my $counted = qr/^howdah_connections\{state="reading"\} 17$/m;
    ok $server->wait_until(sub { answer($plain) =~ $counted }, 30),
        'those let in count as connections, beside who asks';
    my $start = time;
    like answer($secure), qr{^HTTP/1\.1 200 }, 'who comes behind it comes through';
    cmp_ok time - $start, '<', 60, '... when sixteen at a time before him have had a second each';
};

subtest 'proxies that do not say whose their connections are' => sub {
    my $server = Howdah::Test::Server->start(
        app     => 'sub { [200, [], [$_[0]{REMOTE_ADDR}]] }',
        listen  => undef,
        options => [
            '--listen', 'tls:127.0.0.1:0,proxy-protocol',
            qw(--workers 1 --trusted-proxy 127.0.0.1 --tls-handshakes 4 --header-timeout 600s),
            $tls->options
        ]
    );
    ($secure) = map { /:(\d+)$/ } $server->urls;
    my @silent = map { beginning($_) } ('', 'PROXY TCP4 192.0.2.1 ') x 6;
    my $proxy  = beginning("PROXY TCP4 192.0.2.1 198.51.100.1 4711 443\r\n");
    ok + IO::Socket::SSL->start_SSL($proxy, SSL_verify_mode => 0, Timeout => 90), 'one that does comes through'
        or return;
    print {$proxy} "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    like join('', <$proxy>), qr/192\.0\.2\.1$/, '... and its client is served';
};

done_testing;
