# Proxies in front: what they tell of their clients counts where they are trusted, and changes nothing where they are not.
use strict;
use warnings;
use lib 't/lib';

use File::Temp ();
use Howdah::Test::Client;
use Howdah::Test::Server;
use IO::Socket::UNIX ();
use Test::More;

my $app = <<'APP';
sub {
    my $env = shift;
    my $address = $env->{REMOTE_ADDR};
    $address = 'none' if !length($address // '');
    return [200, [], [join ' ', $address, $env->{'psgi.url_scheme'}, @$env{qw(HTTP_HOST SERVER_PORT)}]];
}
APP
my $dir = File::Temp->newdir;
my $log = "$dir/access.log";

sub start {
    my @options = @_;
    my @pages   = (qw(--workers 1 --status-path /server-status --status-allow), '192.0.2.0/24,127.0.0.0/8');
    return Howdah::Test::Server->start(
        app     => $app,
        options => [@pages, '--access-log', $log, '--access-log-format', '%a %{c}a %{Host}i', @options]
    );
}

sub request { return join "\r\n", 'GET ' . shift . ' HTTP/1.1', @_, '', '' }

sub seen {
    my ($server, @fields) = @_;
    my $body = Howdah::Test::Client->ask($server, request('/', 'Host: inside:1', @fields))->{body};
    return $body =~ s/ (?:\Q${\$server->port}\E)$/ ours/r;
}

my $https = 'X-Forwarded-Proto: https';
my @CASES = (
    ['X-Forwarded-For: 192.0.2.1'                               => '192.0.2.1 http inside:1 ours'],
    ['X-Forwarded-For: 203.0.113.9, 192.0.2.1'                  => '192.0.2.1 http inside:1 ours'],
    ['X-Forwarded-For: 192.0.2.1, 127.0.0.9'                    => '192.0.2.1 http inside:1 ours'],
    ["X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-For: 127.0.0.9" => '192.0.2.1 http inside:1 ours'],
    ["X-Forwarded-For: 192.0.2.1\r\n$https"                     => '192.0.2.1 https inside:1 443'],
    ["$https\r\nX-Forwarded-Host: shop.example"                 => '127.0.0.1 https shop.example 443'],
    ["$https\r\nX-Forwarded-Host: shop.example:8443"            => '127.0.0.1 https shop.example:8443 8443'],
    ["$https\r\nX-Forwarded-Port: 8443"                         => '127.0.0.1 https inside:1 8443'],
    ["$https\r\nX-Forwarded-Port: +80"                          => '127.0.0.1 https inside:1 443'],
    ['X-Forwarded-For: nonsense'                                => '127.0.0.1 http inside:1 ours'],
    ['Forwarded: for=192.0.2.1;proto=https'                     => '127.0.0.1 http inside:1 ours'],
    ['X-Real-IP: 192.0.2.1'                                     => '127.0.0.1 http inside:1 ours'],
);

subtest 'a trusted proxy is believed' => sub {
    my $server = start('--trusted-proxy', '127.0.0.0/8,10.0.0.0/8');
    is seen($server, $_->[0]), $_->[1], $_->[0] =~ s/\r\n/, /gr for @CASES;
};

subtest 'another proxy is not, whatever it says' => sub {
    my @fields = map { $_->[0] } @CASES;
    for my $options ([], ['--trusted-proxy', '10.0.0.0/8'], ['--trusted-proxy', 'unix']) {
        my $server = start(@$options);
        is seen($server, @fields), '127.0.0.1 http inside:1 ours', "@$options";
    }
};

subtest 'Forwarded is read where that is what proxies write, and nothing else' => sub {
    my $server = start(qw(--trusted-proxy 127.0.0.1 --proxy-fields forwarded));
    is seen($server, 'Forwarded: for="192.0.2.1:99";proto=https;host=a.example'), '192.0.2.1 https a.example 443';
    is seen($server, 'X-Forwarded-For: 192.0.2.1', $https), '127.0.0.1 http inside:1 ours';
    is seen($server, 'Forwarded: for="x, for=192.0.2.1'), '192.0.2.1 http inside:1 ours', 'also behind an open string';
};

subtest 'each request of a connection tells anew' => sub {
    my $server = start(qw(--trusted-proxy 127.0.0.1));
    my @hosts  = ('Host: x');
    my $bytes  = join '', request('/', @hosts, 'X-Forwarded-For: 192.0.2.1', 'X-Forwarded-Host: shop'),
        request('/', @hosts),
        request('/', @hosts, 'X-Forwarded-For: 192.0.2.2', 'Content-Length: 70000') . 'x' x 70000,
        request('/', @hosts, 'Connection: close');
    my $all = do { my $client = Howdah::Test::Client->new($server); $client->write($bytes); $client->rest };
    is_deeply [$all =~ /^(\S+ http \S+)/mg],
        ['192.0.2.1 http shop', '127.0.0.1 http x', '192.0.2.2 http x', '127.0.0.1 http x'];
    my $lines  = sub { open my $in, '<', $log or die $!; my @lines = <$in>; return join '', @lines[-4 .. -1] };
    my $wanted = "192.0.2.1 127.0.0.1 shop\n127.0.0.1 127.0.0.1 x\n192.0.2.2 127.0.0.1 x\n127.0.0.1 127.0.0.1 x\n";
    $server->wait_until(sub { $lines->() eq $wanted }, 5);
    is $lines->(), $wanted, 'the access log has both ends, and the host that was asked for';
};

subtest 'a proxy at a Unix socket' => sub {
    my $server = start('--trusted-proxy', 'unix', '-S', "$dir/app.sock", '-l', '127.0.0.1:0');
    my $socket = IO::Socket::UNIX->new(Peer => "$dir/app.sock") or die $!;
    print {$socket} request('/', 'Host: x', 'X-Forwarded-For: 192.0.2.1', $https, 'Connection: close');
    like join('', <$socket>), qr/192\.0\.2\.1 https x 443/;
};

subtest 'the status page is for the client behind the proxy' => sub {
    my $server = start(qw(--trusted-proxy 127.0.0.1));
    for (['192.0.2.1', 200], ['203.0.113.9', 403]) {
        my ($client, $status) = @$_;
        my $asked = request('/server-status?auto', 'Host: shop.example', "X-Forwarded-For: $client");
        is(Howdah::Test::Client->ask($server, $asked)->{status}, $status, $client);
    }
};

done_testing;
