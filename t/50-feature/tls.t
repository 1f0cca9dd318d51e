# TLS: what applications and logs know of it, which certificate a client gets, and what clients without it are told.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Server;
use Howdah::Test::Tls;
use IO::Socket::INET;
use JSON::PP qw(decode_json);
use Socket ();
use Test::More;
use Time::HiRes qw(time);

plan skip_all => 'needs IO::Socket::SSL and openssl' if !Howdah::Test::Tls->is_installed;
require Net::SSLeay;

my ($first, $rsa, $wild, $authority) = (
    Howdah::Test::Tls->new(names => ['first.example']),
    Howdah::Test::Tls->new(names => ['first.example'], kind => 'rsa'),
    Howdah::Test::Tls->new(names => ['*.wild.example']),
    Howdah::Test::Tls->new(ca    => 1, subject => '/CN=authority')
);
my $known    = Howdah::Test::Tls->new(by => $authority, subject => '/O=Camels, Ltd/CN=driver');
my $stranger = Howdah::Test::Tls->new;

sub start {
    my (@options) = @_;
    return Howdah::Test::Server->start(
        file    => 't/apps/echo.psgi',
        options => ['--workers', 1, $first->options, @options]
    );
}

# The env of a request on a connection of its own; none when there is no connection.
sub env_of {
    my ($server, %how) = @_;
    my $socket = Howdah::Test::Tls::connect_to($server->port, %how) or return;
    print {$socket} "GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    my $answer = join '', <$socket>;
    return $answer =~ /\r\n\r\n(\{.*\})\z/s ? decode_json($1)->{env} : undef;
}

sub name_of {
    my $socket = Howdah::Test::Tls::connect_to(@_) or return 'none';
    return join ' ', map { $_ // '' } ($socket->peer_certificate('subjectAltNames'))[1], ref $socket;
}

my $log    = File::Temp->new;
my $format = '%{SSL_PROTOCOL}x %{SSL_CIPHER}x %{SSL_TLS_SNI}x %{SSL_NONE}x %{Strict-Transport-Security}o';
my $server = start(
    $rsa->options, $wild->options, '--access-log', "$log", '--access-log-format', $format, '--hsts=1h',
    '--redirect-to-https', '127.0.0.1:0'
);

subtest 'the env' => sub {
    for (['TLSv1_3', 'TLSv1.3', qr/^TLS_AES_/], ['TLSv1_2', 'TLSv1.2', qr/^ECDHE-ECDSA-/]) {
        my ($version, $protocol, $cipher) = @$_;
        my $env = env_of($server, SSL_version => $version, SSL_hostname => 'a.wild.example');
        is $env->{'psgi.url_scheme'}, 'https', "$protocol: scheme";
        is $env->{$_->[0]}, $_->[1], "$protocol: $_->[0]"
            for [HTTPS => 'on'], [SSL_PROTOCOL => $protocol], [SSL_TLS_SNI => 'a.wild.example'];
        like $env->{SSL_CIPHER}, $cipher, 'cipher';
        ok !exists $env->{SSL_CLIENT_VERIFY}, 'nobody is asked for a certificate';
    }
};

subtest 'the access log' => sub {
    ok $server->wait_until(sub { -s "$log" }), 'lines come';
    open my $in, '<', "$log" or die $!;
    like scalar(<$in>), qr{^TLSv1\.3 TLS_AES_\S+ a\.wild\.example - max-age=3600$}, 'as mod_ssl calls them';
};

subtest 'the certificate for a name, and for what the client understands' => sub {
    for (
        ['first.example', 'first.example', 'ecdsa'], ['a.wild.example', '*.wild.example'],
        ['other.example', 'first.example']
        )
    {
        my ($asked, $got) = @$_;
        my $socket = Howdah::Test::Tls::connect_to($server->port, SSL_hostname => $asked);
        is(($socket->peer_certificate('subjectAltNames'))[1], $got, "$asked gets $got");
    }
    my %how =
        (SSL_version => 'TLSv1_2', SSL_cipher_list => 'ECDHE-RSA-AES128-GCM-SHA256', SSL_hostname => 'first.example');
    my $socket = Howdah::Test::Tls::connect_to($server->port, %how);
    is $socket && $socket->get_cipher, 'ECDHE-RSA-AES128-GCM-SHA256', 'RSA for who knows no other';
    ok !Howdah::Test::Tls::connect_to($server->port, SSL_version => 'TLSv1_2', SSL_cipher_list => 'AES128-SHA'),
        'no weak ciphers';
};

subtest 'clients without TLS' => sub {
    my ($port) = $server->log =~ m{sending clients of http://127\.0\.0\.1:(\d+) to https};
    my $plain = sub {
        my $port   = shift;
        my $socket = IO::Socket::INET->new("127.0.0.1:$port");
        print {$socket} @_;
        join '', <$socket>;
    };
    my $https = $server->port;
    for (["camel.example:$port", "camel.example:$https"], ['camel.example', 'camel.example']) {
        my ($host, $there) = @$_;
        my $moved = $plain->($port, "GET /x?y HTTP/1.1\r\nHost: $host\r\nConnection: close\r\n\r\n");
        like $moved, qr{^HTTP/1\.1 301 .*\r\nLocation: https://\Q$there\E/x\?y\r\n}s, "$host is sent there";
    }
    like $plain->($port, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx"), qr{^HTTP/1\.1 308 },
        'with their method';
    like $plain->($port, "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"), qr{^HTTP/1\.1 400 }, 'but not to what is no host';
    my $told = $plain->($https, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    like $told, qr{^HTTP/1\.1 400 .*write https://}s, 'or told at the port of TLS';
    like $told, qr{^Date: \w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT\r$}m, '... and when';
    my ($head, $body) = split /\r\n\r\n/, $told, 2;
    like $head, qr/^Content-Length: @{[length $body]}\r?$/m, '... in as many bytes as are promised';
};

subtest 'protocols' => sub {
    my $socket = Howdah::Test::Tls::connect_to($server->port, SSL_alpn_protocols => ['h3', 'http/1.1']);
    is $socket->alpn_selected, 'http/1.1', 'ALPN';
    my $old = Howdah::Test::Tls::connect_to($server->port, SSL_alpn_protocols => ['http/1.0']);
    is $old && $old->alpn_selected, 'http/1.0', 'also of clients that speak HTTP/1.0 and say so, as curl --http1.0';
    ok !Howdah::Test::Tls::connect_to($server->port, SSL_alpn_protocols => ['h3']), 'none in common';
    like IO::Socket::SSL::errstr(), qr/no application protocol/, 'the alert says it';
    my $strict = start('--tls-min', '1.3');
    ok !env_of($strict, SSL_version => 'TLSv1_2'), '--tls-min refuses what is older';
    is env_of($strict)->{SSL_PROTOCOL}, 'TLSv1.3', 'and takes what is not';
};

subtest 'a client with which nothing is in common hears just that' => sub {
    my $lonely = start();
    for (
        ['ciphers', SSL_version    => 'TLSv1_2', SSL_cipher_list => 'ECDHE-RSA-AES128-GCM-SHA256'],
        ['an old one', SSL_version => 'TLSv1_2', SSL_cipher_list => 'AES128-SHA'],
        )
    {
        my ($what, %how) = @$_;
        ok !Howdah::Test::Tls::connect_to($lonely->port, %how), $what;
        like IO::Socket::SSL::errstr(), qr/handshake failure/, 'the alert says it';
    }
};

subtest 'a client that waits for an acknowledgement before it asks has it at once' => sub {
    my $quickest = 1;
    for (1 .. 10) {
        my $socket = Howdah::Test::Tls::connect_to($server->port, SSL_version => 'TLSv1_3');
        setsockopt $socket, Socket::IPPROTO_TCP(), Socket::TCP_NODELAY(), 0 or die $!;
        my $start = time;
        print {$socket} "GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        sysread $socket, my $answer, 1;
        $quickest = time - $start if time - $start < $quickest;
    }
    cmp_ok $quickest, '<', 0.03, 'where a kernel that delays it waits for 40 ms';
};

subtest 'a greeting that is too long, and one that stops behind its first records, end nobody else' => sub {
    for my $words ("\x16\x03\x01\0\x10" . 'z' x 16, "\x16\x03\x01\0\x06\x01\0\x02\0zz\x16\x03\x01\0\x01z") {
        my $client = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $server->port) or die $!;
        print {$client} $words;
        $client->shutdown(1);
        sysread $client, my $answer, 100;
        ok env_of($server), 'others are served';
    }
};

# A client of TLS 1.3 takes its handshake for complete, and sends requests to who turns it away: whether both went, and the
# alert that it reads behind them.
sub told {
    my ($port, %how) = @_;
    my $socket = Howdah::Test::Tls::connect_to($port, SSL_version => 'TLSv1_3', %how) or return 'no handshake';
    local $SIG{PIPE} = 'IGNORE';
    vec(my $it = '', fileno $socket, 1) = 1;
    select $it, undef, undef, 20 or return 'no answer';
    my @went = map { syswrite($socket, "GET /a HTTP/1.1\r\nHost: x\r\n\r\n") ? 1 : 0 } 1 .. 2;

    # IO::Socket::SSL takes it for the end of the file, and some versions of it forget it.
    Net::SSLeay::ERR_clear_error();
    Net::SSLeay::read($socket->_get_ssl_object, 1);
    return @went, Net::SSLeay::ERR_error_string(Net::SSLeay::ERR_get_error()) =~ s/.* alert //r;
}

subtest 'a client that wants new keys of TLS 1.2 hears at once that it gets none' => sub {
    my $server = start();
    my $socket = Howdah::Test::Tls::connect_to($server->port, SSL_version => 'TLSv1_2') or die $!;
    print {$socket} "GET /a HTTP/1.1\r\nHost: x\r\n\r\n";
    sysread $socket, my $answer, 4096;
    like $answer, qr/^HTTP\S+ 200/, 'after a request';
    my $ssl   = $socket->_get_ssl_object;
    my $began = time;
    local $SIG{ALRM} = sub { die "no answer\n" };
    alarm 20;
    Net::SSLeay::ERR_clear_error();
    my $renewed = eval { Net::SSLeay::renegotiate($ssl); Net::SSLeay::do_handshake($ssl) } // -1;
    alarm 0;
    is $@, '';
    cmp_ok $renewed, '<=', 0, 'not renewed';
    like Net::SSLeay::ERR_error_string(Net::SSLeay::ERR_get_error()), qr/no renegotiation/, 'and told so';
    cmp_ok time - $began, '<', 10;
};

subtest 'certificates of clients' => sub {
    my %of = map { $_->[0] => {SSL_cert_file => $_->[1]->cert, SSL_key_file => $_->[1]->key} } [known => $known],
        [stranger => $stranger];
    my $strict = start('--tls-client-ca', $authority->cert);
    my $env    = env_of($strict, %{$of{known}});
    is $env->{SSL_CLIENT_VERIFY}, 'SUCCESS', 'who is known is served';
    is $env->{SSL_CLIENT_S_DN}, 'CN=driver,O=Camels\, Ltd', 'and named';
    is $env->{SSL_CLIENT_S_DN_CN}, 'driver', 'in short';
    is $env->{SSL_CLIENT_I_DN}, 'CN=authority', 'by whom';
    like $env->{SSL_CLIENT_M_SERIAL}, qr/^[0-9A-F]+$/, 'with a number';
    like $env->{SSL_CLIENT_V_END}, qr/^\w{3} [ \d]\d \d\d:\d\d:\d\d 20\d\d GMT$/, 'and an end';
    my $parts =
        Howdah::Test::Tls->new(by => $authority, subject => '/CN=n/emailAddress=n@x.example/SN=s/GN=g/street=r/UID=u');
    my @shown = (SSL_cert_file => $parts->cert, SSL_key_file => $parts->key);
    is env_of($strict, @shown)->{SSL_CLIENT_S_DN}, 'UID=u,street=r,GN=g,SN=s,emailAddress=n@x.example,CN=n',
        'parts of a name as mod_ssl and nginx call them';
    ok !env_of($strict), 'who has none is turned away';
    ok !env_of($strict, %{$of{stranger}}), 'and who is unknown';
    is_deeply [told($strict->port, %{$of{stranger}})], [1, 1, 'unknown ca'],
        '... who hears why, whatever it says first';
    my $open = start('--tls-client-ca', $authority->cert, '--tls-client', 'optional');
    is env_of($open)->{SSL_CLIENT_VERIFY}, 'NONE', 'optional: who has none is served';
    ok !env_of($open, %{$of{stranger}}), '... but not who shows a wrong one';
};

done_testing;
