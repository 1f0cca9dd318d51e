# WebSocket by an event loop in the worker: it waits for the descriptor itself, and answers 101 by a response.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Server;
use Howdah::Test::Tls;
use Howdah::Test::WebSocket;
use Test::More;

plan skip_all => 'needs Mojolicious' if !eval { require Mojo::WebSocket; 1 };

my $app = <<'PSGI';
use Mojo::IOLoop;
use Mojo::IOLoop::Stream;
use Mojo::WebSocket qw(build_frame parse_frame WS_CLOSE WS_PING WS_PONG WS_TEXT);
use Digest::SHA qw(sha1_base64);

sub answer {
    my ($stream, $input) = @_;
    while (my $frame = parse_frame($input, 1 << 24)) {
        my ($op, $bytes) = @$frame[4, 5];
        $op = WS_PONG if $op == WS_PING;
        $stream->write(build_frame(0, 1, 0, 0, 0, $op, $bytes));
        $stream->close_gracefully if $op == WS_CLOSE;
    }
}

sub {
    my $env = shift;
    my $key = ($env->{HTTP_SEC_WEBSOCKET_KEY} // '') . '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';
    my @headers = (Upgrade => 'websocket', 'Sec-WebSocket-Accept' => sha1_base64($key) . '=');
    return sub {
        $_[0]->([101, \@headers, []]);
        my $input  = '';
        my $stream = Mojo::IOLoop::Stream->new($env->{'psgix.io'})->timeout(0);
        my $tick   = Mojo::IOLoop->recurring(0.2 => sub { $stream->write(build_frame(0, 1, 0, 0, 0, WS_TEXT, 'tick')) });
        $stream->on(read  => sub { $input .= $_[1]; answer($stream, \$input) });
        $stream->on(close => sub { Mojo::IOLoop->remove($tick); Mojo::IOLoop->stop });
        $stream->start;
        my $early = length $env->{'howdah.io.unread'};
        $stream->emit(read => $early) if $early && sysread $env->{'psgix.io'}, $early, $early;
        Mojo::IOLoop->start;
        $stream->unsubscribe($_) for qw(read close);    # which refer to it, and by some perls (5.40) to the env
    };
};
PSGI

# The next frame that is no tick.
sub hear {
    my $socket = shift;
    for (1 .. 500) {
        my ($type, $bytes) = $socket->hear or return;
        return [$type, $bytes] if ($bytes // '') ne 'tick';
    }
    return;
}

sub everything {
    my $server = Howdah::Test::Server->start(app => $app, options => ['--workers', 1]);
    my $early  = Howdah::Test::WebSocket::frame(text => 'early');
    for my $round (1, 2) {
        my $socket = Howdah::Test::WebSocket->new($server, behind => $early);
        is $socket->status, 101, "round $round";
        ok $socket->is_accepted, 'accepted';
        is_deeply hear($socket), ['text', 'early'], 'what came with the handshake';
        is_deeply [$socket->hear], ['text', 'tick'], 'it speaks by itself';
        $socket->say(binary => 'x' x 300_000);
        is length hear($socket)->[1], 300_000, 'it hears';
        $socket->say(ping => 'there');
        is_deeply hear($socket), ['pong', 'there'], 'it lives';
        $socket->say(close => pack 'n', 1000);
        is_deeply hear($socket), ['close', pack 'n', 1000], 'it ends';
        ok $socket->client->is_closed, 'in order';
    }
    is $server->stop, 0, 'it stops';
    unlike $server->log, qr/ERROR|WARN/, 'nothing to complain of';
    return;
}

Howdah::Test::Tls::either_way(\&everything);

done_testing;
