package Howdah::XS;
use v5.16;
use warnings;

our $VERSION = '0.001';

# Loaded here so that every worker shares them: handles are made in C and used as objects.
use IO::Handle ();
use IO::File ();
use PerlIO::scalar ();
use XSLoader ();

use Howdah::Socket ();

# Why a worker leaves: the numbers of `Leave` in xs/wire.h.
use constant {LEAVE_SIGNAL => 4, LEAVE_EXIT => 5};

XSLoader::load('Howdah::XS', $VERSION);

1;

__END__

=encoding utf-8

=head1 NAME

Howdah::XS - the worker's C side

=head1 SYNOPSIS

  use Howdah::XS;

  Howdah::XS::map_segment($fd);                            # zygote, once
  Howdah::XS::become_worker($index, \@eventfds, \@channels); # worker, after the fork
  Howdah::XS::run($app);                                   # until the worker is to leave

=head1 DESCRIPTION

The only door between Howdah's Perl modules and its C files; applications have no business here. The functions trust
their callers, L<Howdah::Zygote>, L<Howdah::Worker> and L<Howdah::Socket>.

=head2 For the zygote

=over 4

=item map_segment($fd)

Maps the memory shared with the front. Dies when it is of another version.

=item receive($fd)

The next packet from the front and the descriptors that came with it; C<undef> when the front is gone.

=item send($fd, $text)

Sends a packet, at most 64 KiB of it. False when the front is gone.

=item watch_children(), clear_children($fd), unwatch_children()

A descriptor that becomes readable when a child has ended, instead of a signal; emptying it; and back to the signal.

=item stay_dumpable()

After a change of user the kernel hides F</proc/self> from a process; this keeps it, for files that are sent and for
core dumps.

=back

=head2 For a worker

=over 4

=item become_worker($index, \@eventfds, \@channels)

Takes the worker's cell. One eventfd and one channel for each front thread.

=item run($app)

Serves requests until the worker is to leave. Dies when a signal handler dies between two requests; call it again.

=item leave($reason)

The worker leaves after the present request.

=item abandon()

Answers the present request with 500, because the process is about to end.

=item exit_now($status)

Flushes all handles and ends the process without END blocks and destructors.

=item take_socket($handle)

The descriptor of the client's connection, and bytes that the client sent behind its request. Dies when C<$handle> is
not the C<psgix.io> of the present request.

=item buffered($handle)

Bytes in the handle's read buffer.

=item informational($status, \@headers)

What C<psgix.informational> refers to.

=back

=cut
