package Howdah::Socket;
use v5.16;
use warnings;

use Scalar::Util ();
use Symbol ();

our @ISA = ('IO::Handle');

# Linux's numbers: the module Socket would cost each worker memory.
use constant {UNIX => 1, STREAM => 1, INET => 2};

# Methods that look at the descriptor, and so need the real socket first.
my @METHODS = qw(
    accept atmark blocking connected fcntl fdopen fileno getsockopt ioctl opened peeraddr peerhost peername
    peerport protocol recv send setsockopt shutdown sockaddr sockdomain sockhost sockname socktype sockopt sockport
    sync timeout untaint
);

# Of these, those that die of a socket without an IPv4 address. Of the client's the env's is known (socket.c).
my %INTERNET = map { $_ => 1 } qw(peeraddr peerhost peerport sockaddr sockhost sockport);

for my $name (@METHODS) {
    no strict 'refs';
    *$name = sub {
        my $self   = shift;
        my $socket = _socket($self);
        return *$self->{"howdah_$name"} if $INTERNET{$name} && $socket->sockdomain != INET;
        my $code = IO::Socket::INET->can($name) or die "IO::Socket has no method $name";
        return $socket->$code(@_);
    };
}

# A socket that is not connected, with something below it that fetches the connection when it is wanted.
sub lazy {
    my $class = shift;
    my $self  = bless Symbol::gensym(), $class;
    socket $self, UNIX, STREAM, 0 or die "psgix.io: no socket: $!";
    binmode $self;
    $self->autoflush(1);
    Howdah::XS::arm_socket($self);
    tie *$self, 'Howdah::Socket::Lazy', $self;
    return $self;
}

# Called before the connection is asked for, which cannot be given back if this fails.
sub prepare { require IO::Socket::INET; return }

# Called when the handle has become the connection. What the client sent early lies in a buffer, which sysread would pass
# by, so then the handle stays tied.
sub taken {
    my ($self, $early) = @_;
    @ISA = ('IO::Socket::INET');    ## no critic (ProhibitExplicitISA)
    untie *$self;
    tie *$self, 'Howdah::Socket::Lazy', $self, _reader(fileno $self, $early) if length $early;
    return;
}

# Another handle on the same descriptor, with these bytes in its buffer.
sub _reader {
    my ($fd, $early) = @_;
    my $reader = bless Symbol::gensym(), 'Howdah::Socket';
    open $reader, '+<&=', $fd or die "psgix.io: cannot open descriptor $fd: $!";
    binmode $reader;
    $reader->autoflush(1);
    $reader->ungetc(ord substr $early, $_, 1) for reverse 0 .. length($early) - 1;
    return $reader;
}

# The handle that really is the socket, perhaps this one.
sub _socket {
    my $self = shift;
    my $tied = ref $self && tied *$self or return $self;
    return $tied->socket;
}

package Howdah::Socket::Lazy;    # what a handle is tied to until it is used

sub BINMODE { return binmode $_[0]->socket }
sub CLOSE { return $_[0]->shut }
sub EOF { return eof $_[0]->socket }
sub FILENO { return fileno $_[0]->socket }
sub GETC { return getc $_[0]->socket }
sub PRINT { my $socket = shift->socket; return print {$socket} @_ }
sub PRINTF { my $socket = shift->socket; my $format = shift; return printf {$socket} $format, @_ }
sub READLINE { return readline $_[0]->socket }
sub UNTIE { }
sub WRITE { my $socket = shift->socket; return syswrite $socket, $_[0], $_[1] // length $_[0], $_[2] // 0 }

# Behind read and sysread alike. What the client sent early lies in the buffer, which sysread would pass by.
sub READ {
    my $socket = shift->socket;
    my $ready  = Howdah::XS::buffered($socket);
    return sysread $socket, $_[0], $_[1], $_[2] // 0 if !$ready;
    return read $socket, $_[0], $_[1] < $ready ? $_[1] : $ready, $_[2] // 0;
}

# Both handles, of which the last closes the descriptor.
sub shut {
    my $self   = shift;
    my $socket = $self->socket;
    my $handle = $self->{handle};
    untie *$handle;
    my $closed = close $handle;
    return $socket == $handle ? $closed : close $socket;
}

sub TIEHANDLE {
    my ($class, $handle, $reader) = @_;
    my $self = bless {handle => $handle, socket => $reader}, $class;
    Scalar::Util::weaken($self->{handle});
    return $self;
}

# The handle that reads and writes. Fetches the connection before, if nobody has.
sub socket {    ## no critic (ProhibitBuiltinHomonyms)
    my $self = shift;
    return $self->{socket} if $self->{socket};
    my $handle = $self->{handle};
    Howdah::XS::take_socket($handle);
    my $now = tied *$handle;
    return $now ? $now->{socket} : $handle;
}

1;

__END__

=encoding utf-8

=head1 NAME

Howdah::Socket - the client's connection, fetched when it is used

=head1 SYNOPSIS

  my $io = $env->{'psgix.io'};
  setsockopt $io, ...;          # from the first use on the connection is the application's
  syswrite $io, "anything";

  return sub { };               # and there is no response to send

=head1 DESCRIPTION

The front owns every connection. C<psgix.io> is a handle of this class; its first use fetches the connection from the
front, which from then on never reads from it again, and does not close it before the application does. A use is whatever
needs the connection: reading, writing, C<fileno>, any method or built-in function for sockets, or an event loop that looks
at the descriptor. Copying or dumping the env is none. Behind TLS there is no descriptor that an application could use: there
the handle is one end of a socket pair, and the front carries bytes, and the end of either side, between it and the
connection. C<peerhost> and C<peerport> are the env's C<REMOTE_ADDR> and C<REMOTE_PORT> where the descriptor knows no IPv4
address: there, and on IPv6 and Unix sockets. That is the same for every request, also for one that asks to
switch protocols by C<Upgrade>, such as a WebSocket handshake.

What the client has sent behind its request belongs to whoever has the connection. As long as the application has not used
C<psgix.io>, it is the next request, also behind an C<Upgrade> that is not taken up. From the first use on it is the
application's, which reads it first, by buffered functions and by C<sysread> alike. Event loops that wait for the
descriptor to become readable will not hear of it; for them it is also a string, C<< $env->{'howdah.io.unread'} >>, there
as soon as the connection has been fetched; reading the handle gives it all the same, so let the loop read it once before it
waits. Behind TLS it comes by the descriptor as all else, and that string is empty.

An application that has taken the connection and answers on it returns a code reference that does not call its
responder. Any other response is still sent, and then the connection is closed: it is not known any more where a further
request would begin. For the same reason the front writes no 500, 502 or 504 of its own on a connection that was taken.
A response of 101 is different: the connection goes on behind it, and may be taken before or after it.

The connection can be taken until the response has begun, which is when the responder is called with another status. After
that, and for a handle that is kept beyond its request without having been used, the first use dies. It also dies when
applications have as many connections as C<--max-upgrades> allows; uncaught, the client gets 503.

=cut
