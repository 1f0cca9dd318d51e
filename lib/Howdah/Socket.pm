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
        my $self = _attach(shift);
        my $code = IO::Socket::INET->can($name) or die "IO::Socket has no method $name";
        return $self->$code(@_);
    };
}

sub attached {
    my $class = shift;
    return _attach($class->lazy);
}

sub lazy {
    my $class = shift;
    my $self  = bless Symbol::gensym(), $class;
    tie *$self, 'Howdah::Socket::Lazy', $self;
    return $self;
}

sub _attach {
    my $self = shift;
    return $self unless ref $self && tied *$self;
    require IO::Socket::INET;
    my ($fd, $unread) = Howdah::XS::take_socket();
    untie *$self;
    open $self, '+<&=', $fd or die "psgix.io: cannot open descriptor $fd: $!";
    $self->autoflush(1);
    binmode $self;

    if (length $unread) {
        ${*$self}{unread} = $unread;
        $self->ungetc(ord substr $unread, $_, 1) for reverse 0 .. length($unread) - 1;
    }
    @Howdah::Socket::ISA = ('IO::Socket::INET');
    return $self;
}

package Howdah::Socket::Lazy;    # what a handle is tied to until it is used

sub BINMODE { return binmode _real(shift) }
sub CLOSE { return close _real(shift) }
sub EOF { return eof _real(shift) }
sub FILENO { return fileno _real(shift) }
sub GETC { return getc _real(shift) }
sub PRINT { my $handle = _real(shift); return print {$handle} @_ }
sub PRINTF { my $handle = _real(shift); my $format = shift; return printf {$handle} $format, @_ }
sub READLINE { return readline _real(shift) }
sub UNTIE { }
sub WRITE { my $handle = _real(shift); return syswrite $handle, $_[0], $_[1] // length $_[0], $_[2] // 0 }

# Behind read and sysread alike. What the client sent early lies in the buffer, which sysread would pass by.
sub READ {
    my $handle = _real(shift);
    my $early  = length(${*$handle}{unread} // '');
    return sysread $handle, $_[0], $_[1], $_[2] // 0 if !$early;
    return read $handle, $_[0], $_[1] < $early ? $_[1] : $early, $_[2] // 0;
}

sub TIEHANDLE {
    my ($class, $handle) = @_;
    my $self = bless {handle => $handle}, $class;
    Scalar::Util::weaken($self->{handle});
    return $self;
}

sub _real { return Howdah::Socket::_attach($_[0]{handle}) }

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

What the client sent behind its request is read first by the buffered functions (C<readline>, C<read>, C<getc>), and is
a string in C<< $env->{'howdah.io.unread'} >> for those that use C<sysread> on an upgraded connection.

=cut
