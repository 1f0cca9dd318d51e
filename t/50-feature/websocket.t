# WebSocket over plain connections, which the application gets itself, Unix sockets, and TLS, which the front carries.
use strict;
use warnings;
use lib 't/lib';

use File::Temp ();
use Howdah::Test::Client;
use Howdah::Test::Server;
use Howdah::Test::Tls;
use Howdah::Test::WebSocket;
use Test::More;

plan skip_all => 'needs Protocol::WebSocket' if !Howdah::Test::WebSocket->is_installed;

my $frame = \&Howdah::Test::WebSocket::frame;
my $large = join '', map { pack 'N', $_ * 2654435761 % 4294967296 } 1 .. 262_144;    # 1 MB
my $dir   = File::Temp->newdir;
my %ways  = (
    plain => {},
    unix  => {listen => "$dir/socket", expect => qr/serving/},
    TLS   => {tls    => 1},
);

sub echoes {
    my $to     = shift;
    my $socket = Howdah::Test::WebSocket->new($to);
    is $socket->status, 101, 'the handshake';
    ok $socket->is_accepted, '... with the right key';
    for (
        (map { ['binary', substr($large, 0, $_), 'binary'] } 125, 126, 65_535, 65_536), ['text', 'hello', 'text'],
        ['text', "\xc3\xa4", 'text'], ['binary', $large, 'binary'],
        ['binary', '', 'binary'], ['ping', 'are you there', 'pong'],
        )
    {
        my ($type, $bytes, $answer) = @$_;
        $socket->say($type, $bytes);
        my ($got, $echo) = $socket->hear;
        is $got, $answer, "$type of " . length($bytes) . " bytes: $answer";
        ok $echo eq $bytes, '... the same bytes';
    }
    return $socket;
}

sub everything {
    my ($to, $server) = @_;
    subtest 'the client closes' => sub {
        my $socket = echoes($to);
        $socket->say(close => pack 'n', 1000);
        is_deeply [$socket->hear], ['close', pack 'n', 1000], 'its word is answered';
        ok $socket->client->is_closed, 'then it is over';
    };
    subtest 'frames that came with the handshake' => sub {
        for my $count (1, 3, 400) {
            my $behind = join '', map { $frame->(text => "early $_") } 1 .. $count;
            my $socket = Howdah::Test::WebSocket->new($to, behind => $behind);
            my @heard  = map { ($socket->hear)[1] } 1 .. $count;
            is_deeply \@heard, [map { "early $_" } 1 .. $count], "$count, in their order";
            $socket->say(text => 'later');
            is(($socket->hear)[1], 'later', '... and those that come later');
        }
    };
    subtest 'a client that sends no more, and reads' => sub {
        my $socket = Howdah::Test::WebSocket->new($to, behind => $frame->(binary => $large));
        $socket->client->shut;
        ok(($socket->hear)[1] eq $large, 'has all');
        ok $socket->client->is_closed, 'and the end';
    };
    subtest 'no WebSocket client' => sub {
        my $client = Howdah::Test::Client->new($to);
        for my $again ('', ' again') {
            $client->write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
            is $client->response->{status}, 400, "is answered$again";
        }
    };
    return;
}

for my $way (sort keys %ways) {
    local $ENV{TEST_OVER_TLS} = $ways{$way}{tls};
    next if $ways{$way}{tls} && !Howdah::Test::Tls->is_installed;
    my $server = Howdah::Test::Server->start(
        file    => 'examples/websocket.psgi',
        options => ['--workers', 5],
        %{$ways{$way}}
    );
    my $to = $ways{$way}{listen} // $server;
    subtest $way => sub { everything($to, $server) };
    unlike $server->log, qr/ERROR|WARN/, "$way: nothing to complain of";
}

done_testing;
