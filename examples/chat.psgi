# A room in which all hear what one WebSocket client says, with Protocol::WebSocket (Debian: libprotocol-websocket-perl).
# A client has a worker to itself, so its words go from worker to worker: each has a socket in a directory that all know.
use strict;
use warnings;

use File::Temp ();
use IO::Select;
use IO::Socket::UNIX;
use Socket qw(MSG_DONTWAIT SOCK_DGRAM pack_sockaddr_un);

use Protocol::WebSocket::Frame;
use Protocol::WebSocket::Handshake::Server;

my $room   = File::Temp->newdir;               # made before the fork
my %bounds = (max_payload_size => 32 << 10);

sub frame {
    my ($type, $bytes) = @_;
    return Protocol::WebSocket::Frame->new(%bounds, type => $type, buffer => $bytes)->to_bytes;
}

# Nobody waits for a client that does not keep up: it misses some. The socket of a worker that was killed is nobody's.
sub tell_all {
    my ($ear, $message) = @_;
    for my $name (glob "$room/*") {
        send $ear, $message, MSG_DONTWAIT, pack_sockaddr_un($name) or $!{ECONNREFUSED} && unlink $name;
    }
    return;
}

# Until the client leaves, which is false, or says so.
sub talk {
    my ($io, $ear, $early) = @_;
    my $input = Protocol::WebSocket::Frame->new(%bounds);
    my $both  = IO::Select->new($io, $ear);
    while (my @ready = $early ? $io : $both->can_read) {
        $early = 0;
        for my $from (@ready) {
            if ($from == $ear) {
                recv $ear, my $message, 32 << 10, 0;
                print {$io} frame(text => $message) or return;
                next;
            }
            sysread $io, my $bytes, 65_536 or return;
            $input->append($bytes);
            while (defined(my $message = $input->next_bytes)) {
                return print {$io} frame(close => substr $message, 0, 2) if $input->is_close;
                print {$io} frame(pong => $message) if $input->is_ping;
                tell_all($ear, $message) if $input->is_text;
            }
        }
    }
}

sub {
    my $env       = shift;
    my $none      = '';
    my $handshake = Protocol::WebSocket::Handshake::Server->new_from_psgi($env);
    $handshake->parse($none) && $handshake->is_done
        or return [400, ['Content-Type' => 'text/plain'], ["A WebSocket client is expected here.\n"]];
    return sub {
        my $io   = $env->{'psgix.io'};
        my $name = "$room/$$";
        unlink $name;
        my $ear = IO::Socket::UNIX->new(Type => SOCK_DGRAM, Local => $name) or die "cannot listen on $name: $!\n";
        print {$io} $handshake->to_string;
        talk($io, $ear, length $env->{'howdah.io.unread'});
        unlink $name;
        close $io;
    };
};
