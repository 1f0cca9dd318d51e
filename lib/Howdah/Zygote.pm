package Howdah::Zygote;
use v5.16;
use warnings;

use Howdah ();
use Howdah::Inherited ();
use Howdah::Loader ();
use Howdah::Worker ();
use Howdah::XS ();
use Howdah::ZygoteSpec ();

# Started by the howdah command, which says in the environment what to load.
sub main {
    my $class = shift;
    my $text  = delete $ENV{HOWDAH_ZYGOTE}
        // die "Howdah::Zygote->main is for the howdah command; start that, or plackup -s Howdah\n";
    Howdah::XS::exit_now($class->new(Howdah::ZygoteSpec->read($text))->run);
}

sub new {
    my ($class, %spec) = @_;
    return bless {preload => 1, %spec}, $class;
}

# Returns the exit status.
sub run {
    my $self = shift;
    $self->_attach or return 1;    # the front is gone already
    my @known  = ($self->{control}, $self->{code} ? () : Howdah::Inherited->descriptors);
    my $socket = _inode($self->{control});
    my $own    = $$;
    my $loaded = eval { $self->_prepare; 1 };
    my $error  = $@;
    Howdah::Worker->end_child($error) if $$ != $own;
    Howdah::XS::settle_streams();

    if (_inode($self->{control}) ne $socket) {
        print {*STDERR}
            "the application has closed descriptor $self->{control}, by which the front starts workers, while it was "
            . "loaded: what makes a daemon of a process closes all of them; leave that to howdah (--daemonize)\n";
        return 1;
    }
    if (!$loaded) {
        $self->_report(Howdah::XS::ZYGOTE_REPORT_FAILED, Howdah->text_of($error));
        return 1;
    }
    print {*STDERR} Howdah::Templates->report if $INC{'Howdah/Templates.pm'};
    my $children = Howdah::XS::watch_children();
    $self->_prepare_workers(sub { $self->_log($_) for Howdah::Inherited->find(@known) });
    $self->_report_ready;
    $self->{on_ready}->() if $self->{on_ready};
    @_ = ('Howdah::Worker', $self->{control}, $children);
    goto &Howdah::Worker::run;    # leaves no frame of ours in the application's backtraces
}

# What a descriptor leads to; nothing when it is closed.
sub _inode {
    open my $copy, '<&', $_[0] or return '';
    my $place = join ' ', (stat $copy)[0, 1];
    close $copy;                  # perl leaves it open in the place of a standard stream that is closed
    return $place;
}

sub _attach {
    my $self = shift;
    return @$self{qw(generation titles)} = Howdah::XS::attach($self->{control});
}

# In the process that a worker has left behind, with the application as it was there. Returns what tells the ends of
# children; undef when the front wants none of it.
sub _succeed {
    my ($self, $control) = @_;
    $self->{control} = $control;
    $self->_attach or return;
    $self->{reforks}++;
    $0 = $self->_title;
    my $children = Howdah::XS::watch_children();
    Howdah::XS::renew();
    %{$self->{known}} = map { $_ => 1 } Howdah::Inherited->opened;
    return if !$self->_report_ready;
    return $children;
}

sub _report_ready {
    my $self      = shift;
    my $templates = $INC{'Howdah/Templates.pm'} ? Howdah::Templates->count : 0;
    return $self->_report(Howdah::XS::ZYGOTE_REPORT_READY, sprintf('v%vd', $^V), $templates);
}

sub _load {
    my $self = shift;
    return $self->{build}->() if $self->{build};
    return Howdah::Loader->load(map { $_ => $self->{$_} } qw(app eval modules inc env path default_middleware));
}

sub _prepare {
    my $self = shift;
    $0 = $self->_title;
    Howdah::Loader->enter(map { $_ => $self->{$_} } qw(user group chdir));
    if ($self->{nytprof}) { require Howdah::NYTProf; Howdah::NYTProf->load }
    $self->{code} //= $self->_load if $self->{preload};
    return;
}

# What a forked child needs to be a worker.
sub _prepare_workers {
    my ($self, $warn) = @_;
    $self->{known} = {map { $_ => 1 } eval { Howdah::Inherited->opened }};
    Howdah::Worker->prepare(
        app           => $self->{code},
        check         => $warn,
        load          => sub { $self->_load },
        report        => sub { $self->_log("worker @_") },
        control       => $self->{control},
        name          => $self->{name} || $self->_what,
        titles        => $self->{titles},
        full_destruct => $self->{full_destruct},
        nytprof       => $self->{nytprof},
        known         => $self->{known},
        succeed       => sub { $self->_succeed(@_) },
    );
    return;
}

sub _log { return $_[0]->_report(Howdah::XS::ZYGOTE_REPORT_LOG, $_[1]) }

sub _report {
    my ($self, $kind, $text, $status) = @_;
    return Howdah::XS::report($self->{control}, $kind, $text, $status // 0);
}

sub _title {
    my $self   = shift;
    my $name   = $self->{name} ? "[$self->{name}] " : '';
    my $refork = $self->{reforks} ? " (refork $self->{reforks})" : '';
    return "howdah: zygote $name" . $self->_what . " generation $self->{generation}$refork";
}

# What the titles of the processes name.
sub _what { return $_[0]{app} // '-e' }

1;

__END__

=encoding utf-8

=head1 NAME

Howdah::Zygote - loads the application once and forks workers

=head1 SYNOPSIS

  # by the howdah command, which puts into $ENV{HOWDAH_ZYGOTE} what Howdah::ZygoteSpec reads:
  perl -MHowdah::Zygote -e 'Howdah::Zygote->main'

  # by Plack::Handler::Howdah, with the application at hand:
  exit Howdah::Zygote->new(control => $fd, code => $app)->run;

=head1 DESCRIPTION

A child of the front. It maps the shared memory, loads the application, tells the front that it is ready (or why not),
and forks a worker whenever it is told to. It does nothing else, so it stays small and clean: a worker forked after a
week is as good as the first. With C<--refork> a process that a worker has left behind takes its place, see
F<docs/refork.md>.

=head2 main

Takes the specification from the environment variable C<HOWDAH_ZYGOTE>, runs and ends the process. How the front is talked
to is told in F<docs/zygote-protocol.md>.

=head2 new(%spec)

=over 4

=item control

The descriptor of the socket to the front.

=item app, eval, modules, inc, env, path, default_middleware

As for L<Howdah::Loader>.

=item code

The application itself, when it is loaded already.

=item build

Code that returns the application, called in place of L<Howdah::Loader>.

=item preload

False to load the application in each worker. Default true.

=item user, group

Names or numbers; the zygote changes to them first. For one that was forked: what the C<howdah> command starts has changed already.

=item chdir

A directory to change to before that.

=item name

Shown in the titles of the processes.

=item full_destruct

Workers leave with C<END> blocks and destructors.

=item nytprof

Loads L<Devel::NYTProf> before the application, and has workers write what it finds, see L<Howdah::NYTProf>.

=item on_ready

Called once the application is loaded.

=back

=head2 run

Serves the front until it is told to stop or the front is gone. Returns the exit status: 1 when the application could
not be loaded.

=cut
