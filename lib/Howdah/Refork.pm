package Howdah::Refork;
use v5.16;
use warnings;

use Fcntl ();

use Howdah::Generators ();
use Howdah::Inherited ();
use Howdah::XS ();

# Generators that are seeded once for a process, and not anew after a fork: with the same seed in every worker, the next
# session id of one can be computed by whoever has seen those of another. Others begin anew in each worker.
my @GENERATORS = qw(
    Bytes::Random::Secure Bytes::Random::Secure::Tiny Crypt::Random::TESHA2 Math::Random
    Math::Random::ISAAC Math::Random::ISAAC::XS Math::Random::MT Math::Random::Secure Session::Token
);

# What may have been opened by any number of processes.
my %IS_HARMLESS = map { $_ => 1 } map { "/dev/$_" } qw(full null random urandom zero);

# In a worker that serves nobody any more. The control socket in the zygote that it leaves behind, -1 in the worker itself if
# there is such a zygote, undef if not; $known are the descriptors that the worker has from its own zygote.
sub attempt {
    my ($class, $known) = @_;
    my @reasons = $class->reasons($known);
    if (@reasons) {
        Howdah::XS::refuse_promotion(join '; ', @reasons);
        return;
    }
    return Howdah::XS::promote();
}

# Why no other process may begin with what this one has.
sub reasons {
    my ($class, $known) = @_;
    my $left = Howdah::XS::left_by_fork();
    return (defined $left ? $left : (), _looked_at(), _open($known), _generators());
}

sub _looked_at {
    return map { "$_->[0] is loaded, which tells of each worker by itself" }
        grep { $INC{$_->[1]} } ['Howdah::Leaks', 'Howdah/Leaks.pm'], ['Devel::NYTProf', 'Devel/NYTProf.pm'];
}

sub _generators {
    my @loaded  = grep { $INC{s{::}{/}gr . '.pm'} } @GENERATORS;
    my %is_told = map { $_ => 1 } @loaded;
    my @objects = grep { !$is_told{$_} } Howdah::Generators->classes, Howdah::Generators->signers;
    return (
        @loaded ? "@loaded is loaded: its random numbers would be the same in all workers" : (),
        map { "it has an object of $_: its random numbers would be the same in all workers" } @objects
    );
}

# Connections and files that it has opened since it was forked; those of database handles by their names.
sub _open {
    my $known   = shift;
    my %ours    = map { $_ => 1 } @{Howdah::XS::channels()};
    my @handles = Howdah::Inherited->handles;
    my %named   = map { $_->{socket} => $_->{name} } grep { defined $_->{socket} } @handles;
    my @said    = map { "$_->{name} is connected" } grep { !defined $_->{socket} } @handles;
    for my $descriptor (grep { !$known->{$_} } Howdah::Inherited->opened) {
        my ($number, $target) = split / /, $descriptor, 2;
        next if $ours{$number} || _is_harmless($number, $target);
        my $peer = $target =~ /^socket:/ ? Howdah::Inherited::peer($number) : undef;
        my $what = $peer ? "connected to $peer" : $target;
        push @said, "descriptor $number is open, " . join ', ', $what, $named{$number} // ();
    }
    return @said;
}

# A file that is only appended to, as a log is; what is left of a module that has data behind its code; a socket that nothing
# has become of.
sub _is_harmless {
    my ($number, $target) = @_;
    return 1 if $IS_HARMLESS{$target} || $target =~ m{^/proc/\d+/statm$};
    return _is_unused($number) if $target =~ /^socket:/;
    open my $file, '<&', $number or return 0;
    my $flags = fcntl($file, Fcntl::F_GETFL(), 0) // return 0;
    return 0 if !-f $file;
    return 1 if $flags & Fcntl::O_APPEND();
    return !($flags & (Fcntl::O_WRONLY() | Fcntl::O_RDWR())) && Howdah::Inherited::is_module($file);
}

# A stream that is neither connected nor waits for connections, or the socket of a system log.
sub _is_unused {
    my $number = shift;
    require Socket;
    open my $socket, '+<&', $number or return 0;
    my ($type, $accepts) =
        map { unpack 'i', getsockopt($socket, Socket::SOL_SOCKET(), $_) // return 0 } Socket::SO_TYPE(),
        Socket::SO_ACCEPTCONN();
    if ($type == Socket::SOCK_DGRAM()) {
        return Socket::sockaddr_family(getsockname $socket) == Socket::AF_UNIX();
    }
    return $type == Socket::SOCK_STREAM() && !$accepts && !defined getpeername $socket;
}

1;

__END__

=encoding utf-8

=head1 NAME

Howdah::Refork - whether a worker can leave the next zygote behind

=head1 DESCRIPTION

With C<--refork> the process of a worker that has served for a while becomes the zygote, so that what it has loaded, compiled
and cached is shared by all workers to come. What must not be shared is looked for here first; F<docs/refork.md> tells what
that is, and what an application does about it. Loaded by L<Howdah::Worker> when it is needed.

=head2 attempt(\%known)

In a worker that serves nobody any more, with the descriptors that it has from its zygote (L<Howdah::Inherited/opened>). Tells
the front what comes of it. Returns the control socket in the zygote, -1 in a worker that has left one behind, and
C<undef> when there is none.

=head2 reasons(\%known)

A sentence for each thing that keeps this process from it; nothing when it can.

=cut
