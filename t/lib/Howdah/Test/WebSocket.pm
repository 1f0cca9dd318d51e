package Howdah::Test::WebSocket;

# A WebSocket client over a Howdah::Test::Client.
#
#   my $socket = Howdah::Test::WebSocket->new($server, path => '/chat', behind => $bytes);    # sent with the handshake
#   my $other  = Howdah::Test::WebSocket->over($tunnel);    # a Howdah::Test::Tunnel, by HTTP/2
#   $socket->status;                       # 101
#   $socket->say(text => 'hello');
#   my ($type, $bytes) = $socket->hear;    # none at the end of the connection
#   $socket->client->is_closed;
use strict;
use warnings;

use Howdah::Test::Client;

my %OPCODES = (more => 0, text => 1, binary => 2, close => 8, ping => 9, pong => 10);
my %TYPES   = reverse %OPCODES;

sub is_installed {
    return eval { require Protocol::WebSocket::Frame; 1 }
}

sub request {
    my $path = shift // '/';
    return "GET $path HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        . "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
}

sub new {
    my ($class, $to, %wish) = @_;
    my $client = Howdah::Test::Client->new($to);
    $client->write(request($wish{path}) . ($wish{behind} // ''));
    my $response = $client->response;
    return bless {client => $client, response => $response}, $class;
}

sub over {
    my ($class, $tunnel) = @_;
    return bless {client => $tunnel, response => {status => $tunnel->status, headers => {}}}, $class;
}

sub client { return $_[0]{client} }
sub response { return $_[0]{response} }
sub status { return $_[0]{response}{status} }

# The accepted key, RFC 6455 4.2.2.
sub is_accepted {
    return ($_[0]{response}{headers}{'sec-websocket-accept'} // [''])->[0] eq 's3pPLMBiTxaQ9kYGzzhZRbK+xOo=';
}

# A masked frame, as clients send them.
sub frame {
    my ($type, $bytes) = @_;
    my $length = length $bytes;
    my $mask   = 'mask' x (1 + $length / 4);
    my $size   = $length < 126 ? pack 'C', 128 + $length : $length < 65536 ? pack 'Cn', 254, $length : pack 'CQ>', 255,
        $length;
    return pack('C', 128 + $OPCODES{$type}) . $size . 'mask' . ($bytes ^ substr $mask, 0, $length);
}

sub say {    ## no critic (ProhibitBuiltinHomonyms)
    my ($self, $type, $bytes) = @_;
    return $self->{client}->write(frame($type, $bytes));
}

sub hear {
    my ($self, $patience) = @_;
    my $head = $self->{client}->take(2, $patience) // return;
    my ($first, $length) = unpack 'CC', $head;
    $length = unpack 'n', $self->{client}->take(2, $patience) // return if $length == 126;
    $length = unpack 'Q>', $self->{client}->take(8, $patience) // return if $length == 127;
    my $bytes = $self->{client}->take($length, $patience) // return;
    return ($TYPES{$first & 15}, $bytes);
}

1;
