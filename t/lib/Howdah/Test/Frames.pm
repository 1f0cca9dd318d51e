package Howdah::Test::Frames;

# A client of HTTP/2 that can say any frame, also such as no client should; by TLS where Howdah::Test::Tls says so.
#
#   my $client = Howdah::Test::Frames->new($server, settings => {4 => 0});    # SETTINGS_INITIAL_WINDOW_SIZE
#   $client->request(1, '/path', method => 'POST', open => 1, fields => [['x-a', 'b']]);
#   $client->send(DATA => LAST, 1, 'body');
#   my $response = $client->response(1);        # {status, body, reset}, as far as it has come in time
#   my $frame = $client->next_frame;            # {type, flags, stream, payload}, or undef at the connection's end
#   my $bytes = $client->window(1);             # that the server lets a stream send
#
# It acknowledges SETTINGS and PING, and opens no window by itself. Heads are written without compression; of those that
# come only the status is read. Every wait is bounded.
use strict;
use warnings;

use Exporter qw(import);
use Howdah::Test::Tls;
use IO::Socket::INET;
use Socket qw(IPPROTO_TCP TCP_NODELAY);
use Time::HiRes qw(time);

our @EXPORT_OK = qw(LAST ACK WHOLE);

use constant {LAST => 1, ACK => 1, WHOLE => 4, PATIENCE => 20};

my @NAMES = qw(DATA HEADERS PRIORITY RST_STREAM SETTINGS PUSH_PROMISE PING GOAWAY WINDOW_UPDATE CONTINUATION);
my %TYPES = (PRIORITY_UPDATE => 16, map { $NAMES[$_] => $_ } 0 .. $#NAMES);

# What one byte says by HPACK's static table.
my %STATUS = (0x88 => 200, 0x89 => 204, 0x8a => 206, 0x8b => 304, 0x8c => 400, 0x8d => 404, 0x8e => 500);

sub new {
    my ($class, $server, %wish) = @_;
    my $port = ref $server ? $server->port : $server;
    my $socket =
        Howdah::Test::Tls->is_wanted
        ? Howdah::Test::Tls::connect_to($port, SSL_alpn_protocols => ['h2'])
        : IO::Socket::INET->new(PeerAddr => "127.0.0.1:$port", Timeout => PATIENCE);
    $socket or die "cannot connect: $!";

    # As clients of HTTP/2 do: a frame does not wait until the server has acknowledged the one before.
    setsockopt $socket, IPPROTO_TCP, TCP_NODELAY, 1;

    # What TLS says for itself must not be waited behind.
    $socket->blocking(0) if Howdah::Test::Tls->is_wanted;
    my $self = bless {socket => $socket, input => '', seen => {}, windows => {}, first_window => 65535}, $class;

    # Without a table for the server's heads each says its status anew.
    my %terms = (1 => 0, %{$wish{settings} // {}});
    $self->write("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    $self->send('SETTINGS', 0, 0, join '', map { pack 'nN', $_, $terms{$_} } sort keys %terms);
    return $self;
}

sub socket { return $_[0]{socket} }    ## no critic (ProhibitBuiltinHomonyms)

# False when the other side takes no more, or not in time.
sub write {    ## no critic (ProhibitBuiltinHomonyms)
    my ($self, $bytes) = @_;
    local $SIG{PIPE} = 'IGNORE';
    my $end = time + PATIENCE;
    while (length $bytes) {
        vec(my $set = '', fileno $self->{socket}, 1) = 1;
        return 0 if time > $end || !select undef, $set, undef, 1;
        my $written = syswrite $self->{socket}, $bytes, 65536;
        return 0 if !defined $written && !$!{EAGAIN};
        substr $bytes, 0, $written // 0, '';
    }
    return 1;
}

sub frame {
    my ($type, $flags, $stream, $payload) = @_;
    return pack('NCCN', length $payload, $TYPES{$type}, $flags, $stream) =~ s/\A.//sr . $payload;
}

sub send {    ## no critic (ProhibitBuiltinHomonyms)
    my ($self, $type, $flags, $stream, $payload) = @_;
    $self->{windows}{$_} -= length $payload for $type eq 'DATA' ? ($stream, 0) : ();
    return $self->write(frame($type, $flags, $stream, $payload // ''));
}

# Literals that no table remembers. `host` is for a client that says by Host what others say by :authority.
sub head {
    my ($path, %how) = @_;
    my $host   = $how{host} ? [host => $how{host}] : [':authority', 'x'];
    my @fields = (
        [':method', $how{method} // 'GET'],
        [':scheme', 'http'], [':path', $path], $host, @{$how{fields} // []}
    );
    return join '', map {
        "\0" . join '',
            map { _length($_) . $_ } @$_
    } @fields;
}

sub request {
    my ($self, $stream, $path, %how) = @_;
    return $self->send('HEADERS', WHOLE | ($how{open} ? 0 : LAST), $stream, head($path, %how));
}

sub _length {
    my $length = length shift;
    return chr $length if $length < 127;
    my ($bytes, $rest) = (chr 127, $length - 127);
    while ($rest >= 128) { $bytes .= chr($rest % 128 + 128); $rest = int $rest / 128 }
    return $bytes . chr $rest;
}

# The next frame, or undef when there is none in time, or will be none.
sub next_frame {
    my ($self, $patience) = @_;
    my $end = time + ($patience // PATIENCE);
    until ($self->_has_frame) {
        return if !$self->_more($end - time);
    }
    my ($length, $type, $flags, $stream) = unpack 'NCCN', "\0" . substr $self->{input}, 0, 9, '';
    my $payload = substr $self->{input}, 0, $length, '';
    my $frame   = {type => $NAMES[$type] // $type, flags => $flags, stream => $stream, payload => $payload};
    $self->_note($frame);
    return $frame;
}

# True when the connection has ended in time; frames before that are passed over.
sub is_closed {
    my ($self, $patience) = @_;
    1 while $self->next_frame($patience);
    return $self->{closed};
}

# What has come of a response: waits for its end.
sub response {
    my ($self, $stream, $patience) = @_;
    my $seen = $self->{seen}{$stream} //= {body => ''};
    my $end  = time + ($patience // PATIENCE);
    while (!$seen->{end} && !defined $seen->{reset} && time < $end) {
        $self->next_frame($end - time) or last;
    }
    return $seen;
}

# Ends our side. What is under way may still come.
sub shut {
    my $socket = $_[0]{socket};
    return $socket->isa('IO::Socket::SSL') ? Howdah::Test::Tls::close_notify($socket) : shutdown $socket, 1;
}

# The same without a word of it by TLS.
sub cut { return CORE::shutdown $_[0]{socket}, 1 }

# Bytes that the server lets a stream send, as far as it has said so.
sub window {
    my ($self, $stream)      = @_;
    my ($of_stream, $of_all) = ($self->{first_window}, 65535);
    $of_stream += $self->{windows}{$stream} // 0;
    $of_all += $self->{windows}{0} // 0;
    return $of_stream < $of_all ? $of_stream : $of_all;
}

# What the server has settled, by its number; undef for what it has not.
sub setting { return $_[0]{settings}{$_[1]} }

# The codes of GOAWAY frames so far.
sub goaways { return @{$_[0]{goaways} // []} }

sub _has_frame {
    my $self = shift;
    return length $self->{input} >= 9 && length $self->{input} >= 9 + unpack 'N', "\0" . substr $self->{input}, 0, 3;
}

sub _more {
    my ($self, $patience) = @_;
    vec(my $set = '', fileno $self->{socket}, 1) = 1;
    my $has_more = $self->{socket}->can('pending') && $self->{socket}->pending;
    return 0 if !$has_more && ($patience <= 0 || !select $set, undef, undef, $patience);
    my $read = sysread $self->{socket}, $self->{input}, 65536, length $self->{input};
    return 1 if !defined $read && $!{EAGAIN};
    $self->{closed} = 1 if !$read;
    return $read;
}

sub _note {
    my ($self, $frame) = @_;
    my ($type, $ends, $payload) = (@{$frame}{qw(type flags payload)});
    my $seen = $self->{seen}{$frame->{stream}} //= {body => ''};
    if ($type eq 'HEADERS') { push @{$seen->{heads}}, $seen->{status} = _status($payload) }
    elsif ($type eq 'DATA') { $seen->{body} .= $payload }
    elsif ($type eq 'RST_STREAM') { $seen->{reset} = unpack 'N', $payload }
    elsif ($type eq 'WINDOW_UPDATE') { $self->{windows}{$frame->{stream}} += unpack 'N', $payload }
    elsif ($type eq 'GOAWAY') { push @{$self->{goaways}}, unpack 'x4N', $payload }
    elsif ($type =~ /^(?:SETTINGS|PING)$/ && !($ends & ACK)) {
        $self->_settle($payload) if $type eq 'SETTINGS';
        $self->send($type, ACK, 0, $type eq 'PING' ? $payload : '') if !$self->{deaf};
    }
    $seen->{end} = 1 if $type =~ /^(?:HEADERS|DATA)$/ && $ends & LAST;
    return;
}

sub _settle {
    my ($self, $payload) = @_;
    my %settings = unpack '(nN)*', $payload;
    $self->{settings}     = {%{$self->{settings} // {}}, %settings};
    $self->{first_window} = $settings{4} // $self->{first_window};
    return;
}

sub _status {
    my $head  = shift =~ s/\A[\x20-\x3f]+//r;
    my $first = ord $head;
    return $STATUS{$first} if $STATUS{$first};
    return $1 if $head =~ /\A[\x48\x08]\x03(\d{3})/;
    return $head =~ /\A[\x48\x08](?:\x82(..)|\x83(...))/s ? _digits($1 // $2) : 0;
}

# Three digits, as Huffman's code has them: 0 to 2 have five bits, 3 to 9 six, from 0x19 on.
sub _digits {
    my $bits = unpack 'B*', shift;
    my $code = '';
    while (length $code < 3) {
        if ($bits =~ s/\A000(00|01|10)//) { $code .= oct "0b$1" }
        elsif ($bits =~ s/\A(0[01]\d{4})//) { $code .= oct("0b$1") - 0x19 + 3 }
        else { return 0 }
    }
    return $code;
}

1;
