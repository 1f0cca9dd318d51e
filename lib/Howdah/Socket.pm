package Howdah::Socket;
use v5.16;
use warnings;

use Scalar::Util ();
use Symbol ();

our @ISA = ('IO::Handle');

# Methods that look at the descriptor, and so need the real socket first.
my @METHODS = qw(
    accept atmark blocking close connected fcntl fdopen fileno getsockopt ioctl opened peeraddr peerhost peername
    peerport protocol recv send setsockopt shutdown sockaddr sockdomain sockhost sockname socktype sockopt sockport
    sync timeout untaint
);

for my $name (@METHODS) {
    no strict 'refs';
    *$name = sub {
        my $socket = _socket(shift);
        my $code   = IO::Socket::INET->can($name) or die "IO::Socket has no method $name";
        return $socket->$code(@_);
    };
}

# Makes the handle the real socket at once: what the client sent early is returned and read first by buffered functions.
sub attach {
    my $self = shift;
    my ($fd, $early) = Howdah::XS::take_socket($self);
    untie *$self;
    _open($self, $fd, $early);
    return $early;
}

sub lazy {
    my $class = shift;
    my $self  = bless Symbol::gensym(), $class;
    tie *$self, 'Howdah::Socket::Lazy', $self;
    return $self;
}

sub _open {
    my ($handle, $fd, $early) = @_;
    require IO::Socket::INET;
    @Howdah::Socket::ISA = ('IO::Socket::INET');
    open $handle, '+<&=', $fd or die "psgix.io: cannot open descriptor $fd: $!";
    binmode $handle;
    $handle->autoflush(1);
    $handle->blocking(1);    # the front had it otherwise
    $handle->ungetc(ord substr $early, $_, 1) for reverse 0 .. length($early) - 1;
    return $handle;
}

# The handle that really is the socket, perhaps this one.
sub _socket {
    my $self = shift;
    my $tied = ref $self && tied *$self or return $self;
    return $tied->socket;
}

package Howdah::Socket::Lazy;    # what a handle is tied to until it is used

sub BINMODE { return binmode $_[0]->socket }
sub CLOSE { return close $_[0]->socket }
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

sub TIEHANDLE {
    my ($class, $handle) = @_;
    my $self = bless {handle => $handle}, $class;
    Scalar::Util::weaken($self->{handle});
    return $self;
}

# Fetches the socket. The handle itself becomes it, unless there are early bytes that only READ can give back.
sub socket {    ## no critic (ProhibitBuiltinHomonyms)
    my $self = shift;
    return $self->{socket} if $self->{socket};
    my $handle = $self->{handle};
    my ($fd, $early) = Howdah::XS::take_socket($handle);
    if (length $early) {
        return $self->{socket} = Howdah::Socket::_open((bless Symbol::gensym(), 'Howdah::Socket'), $fd, $early);
    }
    untie *$handle;
    return Howdah::Socket::_open($handle, $fd, '');
}

1;

__END__

=encoding utf-8

=head1 NAME

Howdah::Socket - the client's connection, fetched when it is used

=head1 SYNOPSIS

  my $io = $env->{'psgix.io'};
  setsockopt $io, ...;          # only after the first use, see below
  syswrite $io, "anything";     # from here on the connection is the application's

  return sub { };               # and there is no response to send

=head1 DESCRIPTION

The front owns every connection. C<psgix.io> is a handle of this class; the first read, write, C<fileno> or method call
fetches the connection from the front, which from then on neither reads from it nor closes it before the application
does. Copying or dumping the env fetches nothing.

A request with an C<Upgrade> header, such as a WebSocket handshake, has the real socket from the start, so event loops
can use it at once. Otherwise Perl's built-in socket functions (C<setsockopt>, C<getpeername>, C<select>) need the
descriptor to be fetched first, for example by C<< $io->fileno >>. The methods of L<IO::Socket> do that by themselves.

An application that has taken the connection and answers on it returns a code reference that does not call its
responder. Any other response is still sent.

What the client sent behind its request is read first. On an upgraded connection that holds for the buffered functions
(C<readline>, C<read>, C<getc>); for those that use C<sysread> it is a string in C<< $env->{'howdah.io.unread'} >>.

A handle that is kept beyond its request without having been used is of no more use.

=cut
