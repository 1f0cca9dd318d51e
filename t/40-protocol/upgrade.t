# What stands behind a request that asks to switch protocols (RFC 9110 7.8) is the application's that takes the connection by
# using psgix.io. Otherwise it is the next request behind one for h2c, which clients ask for beside any request, and nobody's
# behind one for another protocol: a proxy may pass on what its client says before it has heard that nothing is switched.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Server;
use Test::More;
use Time::HiRes qw(sleep);

my $server = Howdah::Test::Server->start(options => ['--workers', 1], app => <<'PSGI');
use Hash::Util qw(lock_hash hash_locked);
my @ran;
sub body { my $env = shift; local $/; my $in = $env->{'psgi.input'}; scalar(<$in>) // '' }
my %do = (
    '/ran'   => sub { my @was = @ran; @ran = (); [200, [], ["@was"]] },
    '/copy'  => sub { my %copy = %{$_[0]}; my @all = map { "$_" } values %copy; [200, [], ['copied']] },
    '/take'  => sub {
        my $io = $_[0]{'psgix.io'};
        sub { print {$io} 'HTTP/1.1 101 Switching Protocols', "\r\n\r\n"; print {$io} "<$_" while <$io> };
    },
    '/look'  => sub { my $peer = $_[0]{'psgix.io'}->peerhost; [200, [], [$peer]] },
    '/unread' => sub {
        my $env = shift;
        my $fd  = fileno $env->{'psgix.io'};
        sub { syswrite $env->{'psgix.io'}, "$fd>0: $env->{'howdah.io.unread'}" };
    },
    '/locked' => sub {
        my $env = shift;
        lock_hash(%$env);
        my $fd = fileno $env->{'psgix.io'};
        sub { syswrite $env->{'psgix.io'}, "$env->{'howdah.io.unread'}, " . (hash_locked(%$env) ? 'locked' : 'open') };
    },
    '/close' => sub { my $io = $_[0]{'psgix.io'}; print {$io} scalar <$io>; $io->close; our $kept = $io; sub { } },
    '/files' => sub { opendir my $dir, '/proc/self/fd' or die $!; [200, [], [scalar(() = readdir $dir)]] },
    '/option' => sub {    # as event loops do, which know nothing of tied handles
        my $env = shift;
        setsockopt $env->{'psgix.io'}, 1, 9, 1 or die "setsockopt: $!";
        sub { my $io = $env->{'psgix.io'}; sysread $io, my $got, 100; syswrite $io, uc $got };
    },
    '/late'  => sub {
        my $env = shift;
        sub { my $w = shift->([200, []]); eval { syswrite $env->{'psgix.io'}, 'x' }; $w->write($@ || 'taken'); $w->close };
    },
    '/killed' => sub { syswrite $_[0]{'psgix.io'}, 'mine'; kill KILL => $$; sleep 1 },
    '/dies'  => sub { syswrite $_[0]{'psgix.io'}, 'mine'; die "after it was taken\n" },
);
sub {
    my $env = shift;
    my $ran = "$env->{REQUEST_METHOD} $env->{PATH_INFO}";
    push @ran, $ran if $env->{PATH_INFO} ne '/ran';
    select undef, undef, undef, 0.5 if $env->{PATH_INFO} eq '/nap';
    my $do = $do{$env->{PATH_INFO}};
    return $do ? $do->($env) : [200, [], ["$ran " . body($env)]];
};
PSGI

my %upgrade = (
    websocket => "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        . "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
    h2c => "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n",
);

sub request { return join '', "GET $_[0] HTTP/1.1\r\nHost: x\r\n", @_[1 .. $#_], "\r\n" }
sub ran { return Howdah::Test::Client->ask($server, request('/ran', "Connection: close\r\n"))->{body} }

sub files { return Howdah::Test::Client->ask($server, request('/files', "Connection: close\r\n"))->{body} }

# The bodies of so many responses on one connection.
sub bodies {
    my ($client, $count) = @_;
    return map { $client->response(patience => 5)->{body} } 1 .. $count;
}

for my $protocol ('h2c') {
    my $first = request('/a', $upgrade{$protocol});
    for my $count (1, 2, 3, 10) {
        my $client = Howdah::Test::Client->new($server);
        $client->write(join '', $first, map { request("/$_") } 1 .. $count);
        my @right = ('GET /a ', map { "GET /$_ " } 1 .. $count);
        is_deeply [bodies($client, 1 + $count)], \@right, "$protocol not taken up, $count behind: each is answered";
    }
    my $client = Howdah::Test::Client->new($server);
    my $evil   = request('/evil');
    my $length = length $evil;
    $client->write("${first}POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: $length\r\n\r\n");
    sleep 0.3;
    $client->write($evil . request('/c'));
    my @right = ('GET /a ', "POST /b $evil", 'GET /c ');
    is_deeply [bodies($client, 3)], \@right, "$protocol, a body that comes later: it is a body";
    $client = Howdah::Test::Client->new($server);
    $client->write(request('/nap', $upgrade{$protocol}) . request('/1'));
    sleep 0.2;
    $client->write(request('/2'));
    @right = map { "GET $_ " } qw(/nap /1 /2);
    is_deeply [bodies($client, 3)], \@right, "$protocol, more comes while it runs: each is answered";
    $client = Howdah::Test::Client->new($server);
    $client->write(request('/copy', $upgrade{$protocol}) . request('/d'));
    is_deeply [bodies($client, 2)], ['copied', 'GET /d '], "$protocol: to copy the env takes nothing";
    unlike ran(), qr{ /evil}, '... and nothing hidden was run';
}

for my $path ('/a', '/copy', '/nap') {
    my $client = Howdah::Test::Client->new($server);
    $client->write(request($path, $upgrade{websocket}) . request('/b'));
    sleep 0.2;
    $client->write(request('/c'));
    my $response = $client->response(patience => 5);
    is_deeply [@$response{qw(status)}, $response->{headers}{connection}], [200, ['close']],
        "websocket not taken up, $path: the end";
    $client->shut;
    is $client->rest(5), '', '... of the connection';
    is ran(), "GET $path", '... and nothing behind was run';
}

# Taken: path, what the connection says to the bytes behind the request.
my $behind = request('/e');
my $files  = files();
ran();
my @taken = (
    ['/take', qr{^HTTP/1\.1 101 .*\r\n\r\n<GET /e HTTP/1\.1\r\n<Host: x\r\n<\r\n\z}, 'line by line'],

    # Behind TLS the string is empty, and the descriptor has them.
    [
        '/unread', Howdah::Test::Tls->is_wanted ? qr{^[1-9]\d*>0: \z} : qr{^[1-9]\d*>0: \Q$behind\E\z},
        'as a string in the env'
    ],
    [
        '/locked', Howdah::Test::Tls->is_wanted ? qr{^, locked\z} : qr{^\Q$behind\E, locked\z},
        'also in one that is locked'
    ],
    ['/option', qr{^\U\Q$behind\E\E\z}, 'by sysread, after a call that no tie can see'],
    ['/close', qr{^\QGET /e HTTP/1.1\E\r\n\z}, 'also the rest of them when it closes'],
    ['/dies', qr{^mine\z}, 'lost to an application that dies; no answer of ours in its protocol'],
    [
        '/look', qr{^HTTP/1\.1 200 .*\r\nConnection: close\r\n\r\n127\.0\.0\.1\z}s,
        'never a request, whatever is answered'
    ],
);
for my $case (@taken) {
    my ($path, $says, $what) = @$case;
    my $client = Howdah::Test::Client->new($server);
    $client->write(request($path, $upgrade{websocket}) . $behind);
    $client->shut;
    like $client->rest(5), $says, "$path: bytes behind are the application's, $what";
    is ran(), "GET $path", '... and were not run';
}

my $large  = join '', map { request("/$_") } 1 .. 1500;
my $client = Howdah::Test::Client->new($server);
$client->write(request('/take', $upgrade{websocket}) . $large);
$client->shut;
is length $client->rest(60), 36 + length($large) + 3 * 1500, 'so are 50 KB of them';
is files(), $files, 'and no descriptor is left over';

my $late = Howdah::Test::Client->new($server);
$late->write(request('/late', $upgrade{h2c}) . request('/f'));
like + ($late->response(patience => 5))->{body}, qr/^psgix\.io: the response has begun/, 'too late once it streams';
is $late->response(patience => 5)->{body}, 'GET /f ', '... so the next request is one';

my $killed = Howdah::Test::Client->new($server);
$killed->write(request('/killed', $upgrade{websocket}) . $behind);
is $killed->rest(5), 'mine', 'no 502 in the protocol of a worker that is killed';
is ran(), '', '... and nothing behind is run by the next';

done_testing;
