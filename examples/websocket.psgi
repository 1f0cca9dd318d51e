# Echoes what a WebSocket client says, with Protocol::WebSocket (Debian: libprotocol-websocket-perl).
# A worker has one such client for as long as that is connected: docs/websocket.md.
use strict;
use warnings;

use Protocol::WebSocket::Frame;
use Protocol::WebSocket::Handshake::Server;

my %bounds = (max_payload_size => 16 << 20, max_fragments_amount => 1024);

sub frame {
    my ($type, $bytes) = @_;
    return Protocol::WebSocket::Frame->new(%bounds, type => $type, buffer => $bytes)->to_bytes;
}

sub echo {
    my $io    = shift;
    my $input = Protocol::WebSocket::Frame->new(%bounds);
    while (sysread $io, my $bytes, 65536) {
        $input->append($bytes);
        while (defined(my $message = $input->next_bytes)) {
            next if $input->is_pong;
            return print {$io} frame(close => substr $message, 0, 2) if $input->is_close;
            my $type = $input->is_ping ? 'pong' : $input->is_text ? 'text' : 'binary';
            print {$io} frame($type, $message) or return;
        }
    }
    return;    # the client has left
}

sub {
    my $env       = shift;
    my $none      = '';
    my $handshake = Protocol::WebSocket::Handshake::Server->new_from_psgi($env);
    $handshake->parse($none) && $handshake->is_done
        or return [400, ['Content-Type' => 'text/plain'], ["A WebSocket client is expected here.\n"]];
    return sub {
        my $io = $env->{'psgix.io'};
        print {$io} $handshake->to_string;
        echo($io);
        close $io;
    };
};
