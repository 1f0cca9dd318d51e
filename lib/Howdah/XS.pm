package Howdah::XS;
use v5.16;
use warnings;

our $VERSION = '0.001';

# Loaded here so that every worker shares them: handles are made in C and used as objects.
use IO::Handle ();
use IO::File ();
use PerlIO::scalar ();
use XSLoader ();

use Howdah::ClientGone ();
use Howdah::Socket ();

XSLoader::load('Howdah::XS', $VERSION);

1;

__END__

=encoding utf-8

=head1 NAME

Howdah::XS - the worker's C side

=head1 SYNOPSIS

  use Howdah::XS;

  my ($generation, $titles) = Howdah::XS::attach($control);    # zygote: take the shared memory
  my $ended = Howdah::XS::watch_children();
  Howdah::XS::prepare('app.psgi', 1);            # zygote: what all workers share
  if (Howdah::XS::obey($control, $ended, undef)) {
      Howdah::XS::run($app);                     # worker: until it is to leave
  }

=head1 DESCRIPTION

The only door between Howdah's Perl modules and its C files; applications have no business here. The functions trust
their callers, L<Howdah::Zygote>, L<Howdah::Worker> and L<Howdah::Socket>.

=head2 For the zygote

=over 4

=item attach($control)

Receives the front's first order, maps the memory shared with it, and returns the generation that the zygote is for, and
whether titles tell requests. Empty when the front is gone already; dies when front and modules are of different versions.

=item report($control, $kind, $text, $status)

Reports to the front: C<ZYGOTE_REPORT_READY>, C<ZYGOTE_REPORT_FAILED> or C<ZYGOTE_REPORT_LOG>, with at most 64 KiB of
text. C<$status> (0 by default) is the number of compiled templates, with C<ZYGOTE_REPORT_READY>. False when the front is
gone.

=item unblock_signals()

Has this process hear all signals, whatever its parent has blocked.

=item settle_streams()

For the application that has been loaded: puts F</dev/null> where it has closed a standard stream, which nothing of ours is to
take.

=item watch_children()

A descriptor that becomes readable when a child has ended, instead of a signal.

=item count_threads()

Those of this process, with its first; 0 when that cannot be told. Takes 10 ms where there are others, since one that has just been
joined is listed for a moment yet.

=item has_object($class)

Whether there is an object of this very class, anywhere in Perl's memory, through all of which it looks.

=item prepare($name, $titles)

Before the first fork, once the application is loaded: makes what workers have in common, and arranges the memory so that
a fork costs little. C<$name> stands in the titles of workers, which tell the present request if C<$titles> is true.

=item obey($control, $ended, $before_fork)

Does what the front says, until that wants no more or is gone; then it is false. True in each worker that it forks.
C<$before_fork>, if defined, is called before each fork.

=item copy_descriptor($fd), close_descriptor($fd)

For descriptors that no Perl handle owns. The copy is closed on exec.

=item leave_root()

Gives up, before a change of user, what that would leave: the session keyring, and reading from the terminal of standard output.

=item groups_of($name, $primary)

A reference to the numbers of the groups of a user, as login gives them.

=item give_up_capabilities()

Behind a change of user: those that the kernel was told to leave.

=item stay_dumpable()

After a change of user the kernel hides F</proc/self> from a process; this keeps it, for files that are sent and for
core dumps.

=back

=head2 For CGI scripts that run in a worker

Called by the modules below C<Howdah::CGI>. F<xs/script.h> tells which file does what.

=over 4

=item prepare_scripts()

Before any script is compiled: C<exit> and C<exec> in code that is compiled from now on know of scripts.

=item run_script($code, $interruptible, $again)

Calls the code as if it were the main program, with C<@_> as it is; C<interrupt> may end it if the second argument is
true. With the third, perl does not warn of subs that what it requires, does or evaluates defines anew. C<ENDED_BY_EXIT> when it called C<exit>, whose status is C<$?> then, C<ENDED_BY_EXEC> when it called C<exec>,
C<ENDED_BY_ITSELF> when it came to its end; C<ENDED_BY_DEATH>, which is false, when C<$@> is what it died of.

=item enter_script()

Called by the sub that a script became, first: C<caller> does not see that sub.

=item take_ends($file, $package)

A reference to the END blocks that were compiled from this file, or in this package, which perl forgets.

=item request_variables(\%fixed, \%env, \%hidden, \%wanted), set_variables(\%variables)

A copy of C<%fixed> with what is in C<%env> of a request's header, but those whose names are in C<%hidden>, and of the names in
C<%wanted> those that have a value; C<%ENV> becomes what is given.

=item set_values(\@pairs)

Gives each variable to which there is a reference the value behind it, and returns such pairs of those that had another.

=item file_version($name)

A string that is another when the file is; undef, and C<$!>, when there is none.

=item name_script($name)

Sets C<$0>, but not the title of the process.

=item point_output(), adopt_output(), output_is_whole()

Makes descriptor 1 that of scripts; takes STDOUT, which was opened on it; whether both are still so. C<point_stdin>,
C<stdin_is_whole>, C<point_errors>, C<adopt_errors> and C<errors_are_whole> are the same for the others.

=item begin_output($answer, $first), end_output(), renew_output()

What is printed is held behind C<$first>, or given to C<< $answer->take >>, which returns 1 to go on, 0 to drop what else comes, -1 to
end the script; what is held at the end; an empty file for the next script, false when the script has closed it.

=item has_threads()

Whether the script has started threads, and some go on.

=item catch_output(), caught_output()

Around the compilation of a script: what it has printed, which otherwise goes nowhere.

=item set_stdin($bytes), pass_stdin($fd)

Makes standard input the body of a request.

=item note_settings(), restore_settings()

Handlers, blocked signals, umask and locale; puts all but the handlers back, and stops timers: for code that a script runs when
it is compiled.

=item note_process(), note_handlers(), note_descriptors(), restore_process()

Remembers how things are; puts back what it can, and returns what the caller is to see to, in bits: C<LEFT_HANDLERS>,
C<LEFT_DESCRIPTORS>, C<LEFT_CHILDREN>.

=item end_handlers()

True when the script has left handlers of its own: then timers are stopped, which would call them.

=item begin_page()

Formats of STDOUT, and their page, are as in a new process.

=item note_names(), restore_names()

Keeps what perl and compiled code have by the names C<STDIN>, C<STDOUT>, C<ENV> and the like; and gives them these names back.

=item close_handles($package)

Closes the handles with names in a package, of files and of directories.

=item redirect($path)

The response is what a GET of this path answers.

=item complain($message)

Writes to the error log, as an error of the present request.

=back

=head2 For tests of the zygote's protocol

See F<docs/zygote-protocol.md>.

=over 4

=item read_order($packet, $descriptors)

What an order says that comes with so many descriptors: kind, worker, generation, flags and secret. Empty when it is no
order.

=item write_report($kind, $worker, $pid, $status, $text)

The packet of a report.

=back

=head2 Constants

The numbers of orders (C<ZYGOTE_ORDER_ATTACH> and so on), of reports (C<ZYGOTE_REPORT_READY>) and of reasons to leave
(C<LEAVE_SIGNAL>, C<LEAVE_EXIT>) are those of F<xs/wire.h>.

=head2 For a worker

=over 4

=item is_worker(), index()

Whether this process is a worker, and which. A child that the application forks is none.

=item run($app)

Serves requests until the worker is to leave. True when it is to leave a zygote behind. Dies when a signal handler dies between two requests; call it again.

=item left_by_fork(), channels()

For a worker that is to leave a zygote behind: threads, children or timers, which a fork leaves out, in words, or C<undef>; its
sockets to the front.

=item promote(), refuse_promotion($why)

Forks that zygote, and tells the front: returns the control socket there, and -1 in the worker. Or tells it why there is none.

=item renew()

In that zygote, when it has attached: what C<prepare> does to the memory.

=item track_leaks()

In the zygote: workers note from their first request on what is blessed.

=item is_tracking()

Whether this worker notes now what is blessed.

=item leaks()

What is left of that, as records that L<Howdah::Leaks> reads.

=item say_last_words()

The worker is about to end: whoever waits for its report of leaks gets it now.

=item leave($reason)

The worker leaves after the present request.

=item interrupt()

For a signal handler: dies with a L<Howdah::ClientGone> when the application runs and its client has left, unless it is loading
a file.

=item hold_interrupts()

From now on C<interrupt> does nothing to the present request, but for scripts that C<run_script> lets be interrupted. Dies with a
L<Howdah::ClientGone> when the request should have been interrupted before.

=item tell_place(...)

For the handler of USR2 in C<%SIG>: tells the error log where in the Perl code the worker is, and has C do so from now on,
where the signal comes.

=item abandon()

Answers the present request with 500, because the process is about to end.

=item exit_now($status)

Flushes all handles and ends the process without END blocks and destructors.

=item arm_socket($handle)

The first use of C<$handle>, a socket that is not connected, will be C<take_socket>.

=item take_socket($handle)

Makes C<$handle> the client's connection, and calls its method C<taken> with the bytes that the client sent behind its
request. Dies when C<$handle> is not the C<psgix.io> of the present request, or when the response has begun.

=item buffered($handle)

Bytes in the handle's read buffer.

=item informational($status, \@headers)

What C<psgix.informational> refers to.

=back

=cut
