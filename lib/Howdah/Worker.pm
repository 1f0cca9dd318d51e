package Howdah::Worker;
use v5.16;
use warnings;

use Howdah ();
use Howdah::XS ();

# Exit status that tells the front not to fork another worker at once.
use constant CANNOT_LOAD => 3;

my $self;    # the worker that this process is

# Becomes a worker; never returns. Called by Howdah::Zygote in the forked child.
sub run {
    my ($class, %given) = @_;
    $self = bless {%given, pid => $$}, $class;
    _prepare_process();
    Howdah::XS::become_worker(@$self{qw(index eventfds channels)});
    my $app = $self->{app} // $self->_load;
    Howdah->run_hooks(after_fork => $self->{index});
    until (eval { Howdah::XS::run($app); 1 }) {
        warn "a signal handler failed between two requests: $@";
    }
    _leave(0);
}

sub _leave {
    my $status = shift;
    my $worker = $self or return;
    $self = undef;
    Howdah->run_hooks(worker_exit => $worker->{index});
    exit $status if $worker->{full_destruct};
    Howdah::XS::exit_now($status);
}

sub _load {
    my $worker = shift;
    my $app    = eval { $worker->{load}->() };
    return $app if $app;
    $worker->{report}->("the application does not load: $@");
    Howdah::XS::exit_now(CANNOT_LOAD);
}

# Signals are caught rather than ignored, because programs that the application runs would inherit the latter. A child
# that it forks does as any process does.
sub _catch {
    my ($handler, @names) = @_;
    my $worker = $$;
    for my $name (@names) {
        $SIG{$name} = sub {
            goto &$handler if $$ == $worker;
            $SIG{$name} = 'DEFAULT';    ## no critic (RequireLocalizedPunctuationVars)
            return kill $name => $$;
        };
    }
    return;
}

sub _prepare_process {
    srand;
    $0 = $self->{title};
    _catch(sub { }, qw(HUP INT PIPE USR1));
    _catch(sub { Howdah::XS::leave(Howdah::XS::LEAVE_SIGNAL) }, qw(QUIT TERM));
    _catch(\&_tell_place, 'USR2');
    $SIG{CHLD} = 'DEFAULT';
    Howdah::XS::unwatch_children();
    return;
}

# Tells the error log where in the Perl code this worker is. Arguments are left out: they may be secrets.
sub _tell_place {
    my @frames;

    # Frame 0 is perl's call of this handler; what lies below the application is ours.
    for (my $depth = 1 ; my ($package, $file, $line) = caller $depth ; $depth++) {
        last if $package eq __PACKAGE__;
        my $sub = (caller $depth + 1)[3] // 'the main program';
        push @frames, "    at $file line $line, in $sub\n";
    }
    print {*STDERR} "howdah: worker $$ is here:\n", @frames;
    return;
}

# The application called exit, or died outside of any request. Its children end here, too, but are no workers.
END {
    if ($self && $self->{pid} == $$) {
        my $status = $?;
        Howdah::XS::leave(Howdah::XS::LEAVE_EXIT);
        Howdah::XS::abandon();
        my $worker = $self;
        $self = undef;
        Howdah->run_hooks(worker_exit => $worker->{index});
        Howdah::XS::exit_now($status) unless $worker->{full_destruct};
        $? = $status;
    }
}

1;

__END__

=encoding utf-8

=head1 NAME

Howdah::Worker - a process that serves requests

=head1 SYNOPSIS

  Howdah::Worker->run(
      index    => 0,               # its cell in shared memory
      eventfds => [5],             # one for each front thread
      channels => [7],
      app      => $app,            # or load => sub { ... }, report => sub { my $message = shift; ... }
      title    => 'howdah: worker 0 app.psgi',
  );

=head1 DESCRIPTION

What a child of L<Howdah::Zygote> runs. The loop itself is in C, see L<Howdah::XS>.

TERM and QUIT make the worker leave after the present request, without interrupting it. USR2 makes it tell the error log
where in the Perl code it is, without arguments, and go on; the front sends it to a worker that exceeds
C<--request-timeout>, and so may you. HUP, INT, USR1 and PIPE do nothing, since they concern the front. An application may
set its own handlers.

=head2 run(%given)

Never returns. The process ends with status 0 when the worker was asked to leave, with the application's status after
C<exit>, and with 3 when the application could not be loaded. See L<Howdah/LEAVING> for what runs at the end; with
C<full_destruct> that is everything.

=cut
