# Behind HAProxy, which says by the PROXY protocol whose a connection is: in both versions, plain and before TLS, and for
# the checks that it makes by itself.
use strict;
use warnings;
use lib 't/lib';

use File::Temp ();
use Howdah::Test::Client;
use Howdah::Test::Ports qw(free_port);
use Howdah::Test::Server;
use Howdah::Test::Tls;
use IO::Socket::INET ();
use POSIX ();
use Test::More;

my ($haproxy) = grep { -x } map { "$_/haproxy" } split(/:/, $ENV{PATH}), '/usr/sbin';
plan skip_all => 'there is no haproxy' if !$haproxy;
plan skip_all => 'needs IO::Socket::SSL and openssl' if !Howdah::Test::Tls->is_installed;

my $dir    = File::Temp->newdir;
my $server = Howdah::Test::Server->start(
    app     => 'sub { [200, [], [join " ", @{$_[0]}{qw(REMOTE_ADDR SERVER_PORT psgi.url_scheme)}, "\n"]] }',
    listen  => undef,
    options => [
        '-l', '127.0.0.1:0', '-l', 'tls:127.0.0.1:0', '-S', "$dir/app.sock", Howdah::Test::Tls->common->options,
        qw(--workers 1 --proxy-protocol), '--trusted-proxy', '127.0.0.1,unix'
    ]
);
my ($plain, $secure) = map { /:(\d+)$/ } $server->urls;

# Name, what is at the other end, and how it is told.
my @WAYS = (
    [v1     => "127.0.0.1:$plain", 'send-proxy'],
    [v2     => "127.0.0.1:$plain", 'send-proxy-v2'],
    [socket => "unix\@$dir/app.sock", 'send-proxy-v2'],
    [tls    => "127.0.0.1:$secure", 'send-proxy-v2'],
    [known  => "127.0.0.1:$plain", 'send-proxy-v2-ssl'],
);
my %port = map { $_->[0] => free_port() } @WAYS;
my $conf =
    "global\n stats socket $dir/stats\ndefaults\n mode tcp\n timeout connect 5s\n timeout client 20s\n timeout server 20s\n";
$conf .= "listen $_->[0]\n bind 127.0.0.1:$port{$_->[0]}\n server one $_->[1] $_->[2] check inter 200 rise 1\n"
    for @WAYS;
open my $out, '>', "$dir/haproxy.cfg" or die $!;
print {$out} $conf;
close $out or die $!;
defined(my $pid = fork) or die $!;

if (!$pid) {
    open STDOUT, '>', "$dir/log" or die $!;
    open STDERR, '>&', \*STDOUT or die $!;
    exec $haproxy, '-db', '-f', "$dir/haproxy.cfg" or POSIX::_exit(127);
}

END {
    local $?;
    if ($pid) { kill TERM => $pid; waitpid $pid, 0 }
}
$server->wait_until(sub { IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port{known}) }, 20)
    or die 'haproxy does not start: ' . `cat $dir/log`;

my $get = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

# From an address that is not the proxy's, so that nobody takes the one for the other.
sub seen {
    my ($way, $over_tls) = @_;
    my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port{$way}, LocalAddr => '127.0.0.7')
        or die $!;
    IO::Socket::SSL->start_SSL($socket, SSL_verify_mode => 0) or return 'no TLS' if $over_tls;
    print {$socket} $get;
    my ($line) = (join '', <$socket>) =~ /^(\d\S+ \S+ \S+) $/m;
    return $line;
}

is seen($_), "127.0.0.7 $port{$_} http", $_ for qw(v1 v2 socket known);
is seen('tls', 1), "127.0.0.7 $port{tls} https", 'before TLS';

# Checks of the proxy's own are LOCAL: a connection, a header, and no request.
unlike `cat $dir/log`, qr/DOWN/, 'its checks find us well';
unlike $server->log, qr/closed the connection of a proxy/, 'and nobody is turned away';

done_testing;
