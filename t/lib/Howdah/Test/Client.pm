package Howdah::Test::Client;

# One connection and exact bytes: what a test writes is what is sent, what arrives is taken apart strictly.
#
#   my $client = Howdah::Test::Client->new($server);
#   $client->write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
#   my $response = $client->response;    # {status, reason, protocol, head, headers => {name => [..]}, body, error}
#   ok $client->is_closed;
use strict;
use warnings;

use Howdah::Test::Tls;
use IO::Select ();
use IO::Socket::INET ();
use IO::Socket::UNIX ();
use Time::HiRes qw(time);

use constant PATIENCE => 20;

$SIG{PIPE} = 'IGNORE';    # a server may close before all is written

# To a Howdah::Test::Server, or to a port, or to the path of a Unix socket.
sub new {
    my ($class, $to) = @_;
    my $port = ref $to ? $to->port : $to;
    my $socket =
          $port =~ m{/} ? IO::Socket::UNIX->new(Peer => $port)
        : Howdah::Test::Tls->is_wanted ? Howdah::Test::Tls::connect_to($port)
        : IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port, Proto => 'tcp');
    $socket or die "cannot connect to $port: $!";
    return bless {socket => $socket, input => '', patience => PATIENCE}, $class;
}

# One that has asked for a path, as simply as can be.
sub asking {
    my ($class, $to, $path) = @_;
    my $self = $class->new($to);
    $self->write("GET $path HTTP/1.1\r\nHost: x\r\n\r\n");
    return $self;
}

# A whole exchange on a connection of its own: the response.
sub ask {
    my ($class, $to, $bytes, %how) = @_;
    my $self = $class->new($to);
    $self->write($bytes);
    return $self->response(%how);
}

sub socket { return $_[0]{socket} }    ## no critic (ProhibitBuiltinHomonyms)

# False when the server has closed the connection.
sub write {    ## no critic (ProhibitBuiltinHomonyms)
    my ($self, $bytes) = @_;
    while (length $bytes) {
        my $sent = syswrite $self->{socket}, $bytes;
        return 0 if !defined $sent;
        substr $bytes, 0, $sent, '';
    }
    return 1;
}

# Says that no more will be sent.
sub shut {
    my $socket = $_[0]{socket};
    return $socket->isa('IO::Socket::SSL') ? Howdah::Test::Tls::close_notify($socket) : shutdown $socket, 1;
}

# The next response. With head => 1 it has no body whatever its head says.
sub response {
    my ($self, %how) = @_;
    my $end  = time + ($how{patience} // $self->{patience});
    my $head = $self->_take_until("\r\n\r\n", $end) // return $self->_broken('no head');
    my ($status_line, @lines) = split /\r\n/, $head;
    my ($protocol, $status, $reason) = $status_line =~ m{^(HTTP/1\.[01]) (\d{3}) (.*)$}
        or return {error => "bad status line: $status_line"};
    my %headers;
    for my $line (@lines) {
        $line =~ /^([!#\$%&'*+.^_`|~0-9A-Za-z-]+): ?([^\r\n\0]*)$/ or return {error => "bad header line: $line"};
        push @{$headers{lc $1}}, $2;
    }
    my $response =
        {protocol => $protocol, status => $status, reason => $reason, head => $head, headers => \%headers, error => ''};
    my $empty = $how{head} || $status =~ /^(?:1..|204|304)$/;
    $response->{body} = $empty ? '' : $self->_body($response, $end);
    return $response;
}

# So many bytes; undef when they do not come.
sub take {
    my ($self, $length, $patience) = @_;
    return $self->_take($length, time + ($patience // $self->{patience}));
}

# What comes before the next line feed; an empty string when none comes.
sub line {
    my ($self, $patience) = @_;
    return $self->_take_until("\n", time + ($patience // $self->{patience})) // '';
}

# What comes until the server closes the connection.
sub rest {
    my ($self, $patience) = @_;
    my $end = time + ($patience // $self->{patience});
    1 while $self->_more($end);
    return delete($self->{input}) // '';
}

# True when the server has closed the connection and sent nothing more.
sub is_closed {
    my ($self, $patience) = @_;
    my $end = time + ($patience // $self->{patience});
    while (!length $self->{input}) { last if !$self->_more($end) }
    return $self->{closed} && !length $self->{input};
}

# True when nothing comes for a while and the connection stays open.
sub is_quiet {
    my ($self, $while) = @_;
    return !length $self->{input} && !$self->_can_read($while // 0.2);
}

sub _body {
    my ($self, $response, $end) = @_;
    my %headers = %{$response->{headers}};
    my $body;
    if (($headers{'transfer-encoding'} // [''])->[0] eq 'chunked') { $body = $self->_chunks($response, $end) }
    elsif ($headers{'content-length'}) { $body = $self->_take($headers{'content-length'}[0], $end) }
    else { $body = $self->rest($end - time) }
    $response->{error} = $self->{closed} ? 'body cut short' : 'body is late' if !defined $body;
    return $body // delete $self->{input};
}

sub _chunks {
    my ($self, $response, $end) = @_;
    my $body = '';
    while (defined(my $line = $self->_take_until("\r\n", $end))) {
        $line =~ /^([0-9a-fA-F]+)$/ or do { $response->{error} = "bad chunk line: $line"; return $body };
        push @{$response->{chunks}}, hex $1;
        if (!hex $1) {
            $response->{trailers} = $self->_take_until("\r\n", $end) // return;
            return $body;
        }
        my $chunk = $self->_take(2 + hex $1, $end) // last;
        $chunk =~ s/\r\n\z// or $response->{error} = 'chunk without end';
        $body .= $chunk;
    }
    $self->{input} = $body . ($self->{input} // '');
    return;
}

sub _take {
    my ($self, $length, $end) = @_;
    while (length $self->{input} < $length) { $self->_more($end) or return }
    return substr $self->{input}, 0, $length, '';
}

sub _take_until {
    my ($self, $mark, $end) = @_;
    my $at;
    while (($at = index $self->{input}, $mark) < 0) { $self->_more($end) or return }
    my $text = substr $self->{input}, 0, $at, '';
    substr $self->{input}, 0, length $mark, '';
    return $text;
}

# Reads what is there. False at the end of the stream, or of patience.
sub _more {
    my ($self, $end) = @_;
    $self->{input} //= '';
    return 0 if $self->{closed};
    my $patience = $end - time;
    return 0 if $patience <= 0 || !$self->_can_read($patience);
    my $read = sysread $self->{socket}, $self->{input}, 65536, length $self->{input};
    $self->{reset}  = 1 if !defined $read;
    $self->{closed} = 1 if !$read;
    return $read;
}

# What TLS has opened already, no select sees.
sub _can_read {
    my ($self, $patience) = @_;
    my $socket = $self->{socket};
    return 1 if $socket->isa('IO::Socket::SSL') && $socket->pending;
    return IO::Select->new($socket)->can_read($patience);
}

sub _broken {
    my ($self, $what) = @_;
    my $why = $self->{reset} ? 'connection reset' : $self->{closed} ? 'connection closed' : 'out of patience';
    return {error => "$what: $why after '$self->{input}'", status => 0, body => '', headers => {}};
}

1;
