package Howdah;
use v5.16;
use warnings;

use Carp ();
use File::Spec ();

our $VERSION = '0.001';

my %hooks = (before_fork => [], after_fork => [], worker_exit => []);

for my $name (keys %hooks) {
    no strict 'refs';
    *$name = sub {
        my (undef, $code) = @_;
        Carp::croak("Howdah->$name takes a code reference") if ref $code ne 'CODE';
        push @{$hooks{$name}}, $code;
        return;
    };
}

# The howdah command: $HOWDAH_BIN, the one beside these modules, or the first in PATH.
sub binary {
    my $lib = File::Spec->rel2abs(__FILE__) =~ s{/Howdah\.pm$}{}r;

    # `make install` puts them five levels below its prefix.
    my @near = map { $lib . '/..' x $_ . '/bin' } 1 .. 5;
    my $path = $ENV{HOWDAH_BIN};
    return $path if defined $path && length $path;
    for my $dir (@near, File::Spec->path) {
        return "$dir/howdah" if -f "$dir/howdah" && -x _;
    }
    die "cannot find the howdah command beside $lib or in PATH; name it by HOWDAH_BIN\n";
}

# Those of that name, and any that are still to come.
sub hooks {
    my (undef, $name) = @_;
    return $hooks{$name};
}

sub has_hooks {
    my ($class, $name) = @_;
    return scalar @{$class->hooks($name)};
}

# Runs the hooks of that name, in the order in which they were given. One that dies does not stop the others.
sub run_hooks {
    my (undef, $name, @arguments) = @_;
    for my $code (@{$hooks{$name}}) {
        eval { $code->(@arguments); 1 } or Howdah->warn_of("the $name hook failed", $@);
    }
    return;
}

# Of an exception, whose class may make it, and die.
sub text_of {
    my (undef, $error) = @_;
    return eval { "$error" } // 'an exception of class ' . ref($error) . ", of which no text can be made\n";
}

# As `warn` does. It comes back, even where the application's handler of warnings dies.
sub warn_of {
    my ($class, $what, $error) = @_;
    my $text = "$what: " . $class->text_of($error);
    eval { warn $text; 1 } or print {*STDERR} $text;
    return;
}

1;

__END__

=encoding utf-8

=head1 NAME

Howdah - application server for PSGI

=head1 SYNOPSIS

In a shell:

  howdah app.psgi
  plackup -s Howdah app.psgi

In F<app.psgi>, what to do around the fork of each worker:

  use Howdah;

  my $dbh = connect_to_database();
  my $sth = $dbh->prepare('SELECT ...');

  Howdah->before_fork(sub { $dbh->disconnect });
  Howdah->after_fork(sub  { my ($index) = @_; $dbh = connect_to_database() });
  Howdah->worker_exit(sub { my ($index) = @_; $dbh->disconnect });

  sub { my $env = shift; return [200, ['Content-Type' => 'text/plain'], ["Hello\n"]] };

=head1 DESCRIPTION

A front process, written in Rust, owns every connection; Perl workers only see complete requests. The application is
loaded once, by the zygote, from which the workers are forked, so they share its memory.

A database handle, a socket or any other connection that is opened while the application is loaded is inherited by
every worker, and they would all talk on the same one. Open it in C<after_fork>, or at the first request. The error log
warns once for each load of the application, when the first worker is about to be forked, of every connected stream
socket and every active L<DBI> handle that workers would inherit, and names its peer; what a C<before_fork> hook has
closed is not warned of.

A handle that must stay open in the zygote is safe when workers open their own in C<after_fork> and the inherited one is
destroyed without a word to the database, which is what L<DBI>'s C<AutoInactiveDestroy> is for.

The hooks are harmless under another server, where they are never called. One that dies writes to the error log and
does not stop the others.

=head1 METHODS

=head2 Howdah->before_fork($code)

Called in the zygote before each worker is forked, without arguments.

=head2 Howdah->after_fork($code)

Called in each new worker with its index, a number from 0, before it takes a request.

=head2 Howdah->worker_exit($code)

Called with the index in a worker that leaves: because it served its quota, was asked to drain, got a TERM signal, or
the application called C<exit> or C<psgix.harakiri.commit>. Not called when it is killed or crashes.

With C<--refork> a worker may leave a process behind that is the next zygote, see F<docs/refork.md>: what belongs to this
process alone must be let go of here.

=head2 Howdah->binary

The path of the C<howdah> command: the environment variable C<HOWDAH_BIN>, or the command installed with these modules
(or built in the same checkout), or the first in C<PATH>. Dies when there is none.

=head2 Howdah->hooks($name), has_hooks($name), run_hooks($name, @arguments), text_of($error), warn_of($what, $error)

For Howdah's own modules.

=head1 LEAVING

A worker that has run its hooks flushes its handles and leaves by C<_exit>: C<END> blocks and destructors of global
objects do not run, since that would copy memory shared with the other workers only to throw it away. With
C<--full-destruct> they run. When the application calls C<exit>, its C<END> blocks run first in either case, and the
exit status is kept. C<exec> runs neither: see F<docs/processes.md>.

=head1 SEE ALSO

L<howdah(1)>, L<Plack::Handler::Howdah>, L<Howdah::ClientGone>, L<PSGI>

=cut
