package Howdah::Worker;
use v5.16;
use warnings;

use Howdah ();
use Howdah::Generators ();
use Howdah::XS ();

# Exit status that tells the front not to fork another worker at once.
use constant CANNOT_LOAD => 3;

my $self;    # the worker that this process is, or is to fork

# In the zygote, once: what need not be done by each worker, for memory that one writes to is no longer shared.
sub prepare {
    my ($class, %given) = @_;
    $self = bless {%given}, $class;
    my $forking = Howdah->has_hooks('before_fork');
    my $check   = delete $self->{check};
    $self->{at_end}      = Howdah->hooks('worker_exit');
    $self->{before_fork} = $forking ? _before_fork($check) : undef;
    $self->{is_plain}    = $given{app} && !$given{nytprof} && !$forking && !Howdah->has_hooks('after_fork');
    $self->{is_plain} &&= !Howdah::Generators->has_any;
    _catch(sub { }, grep { !_has_own_handler($_) } qw(HUP INT PIPE USR1));
    _catch(sub { Howdah::XS::leave(Howdah::XS::LEAVE_SIGNAL) }, qw(QUIT TERM));
    _catch(\&Howdah::XS::tell_place, 'USR2');
    _catch(\&Howdah::XS::interrupt, 'URG');
    _heed_children();
    $check->() if $check && !$forking;
    Howdah::XS::prepare($given{name}, $given{titles});
    Howdah::XS::track_leaks() if $INC{'Howdah/Leaks.pm'};
    return;
}

# In the zygote: forks workers as the front wishes, and returns 0 when that wants no more. In a worker it never returns. The
# process that one leaves behind as the next zygote goes round the loop.
sub run {
    my (undef, $control, $ended) = @_;
    while (Howdah::XS::obey($control, $ended, $self->{before_fork})) {
        my $is_promoted;
        $self->_begin if !$self->{is_plain};
        Howdah::XS::close_descriptor($control);
        until (eval { $is_promoted = Howdah::XS::run($self->{app}); 1 }) {
            Howdah->warn_of('a signal handler failed between two requests', $@);
        }

        # Where nothing is left to be done, not even a sub: the first call of each costs the worker a page.
        my $has_more = $is_promoted || @{$self->{at_end}} || $INC{'Howdah/Leaks.pm'} || $self->{full_destruct};
        Howdah::XS::exit_now(0) unless $has_more;
        _leave(0) if !$is_promoted;
        ($control, $ended) = _leave_zygote();
    }
    return 0;
}

# A child that the application has forked while it was loaded, or in a hook before a fork, and that comes back from that or dies: it is
# none of ours. The front would take its words for those of its parent, and two processes would wait for orders.
sub end_child {
    my (undef, $error) = @_;
    exit 0 if !ref $error && !length $error;
    Howdah->warn_of('a child of the application failed', $error);
    exit 255;
}

# What the hooks close is not inherited: the check comes after them, the first time. A child of theirs would be a second zygote.
sub _before_fork {
    my $check = shift;
    return sub {
        my $own = $$;
        Howdah->run_hooks('before_fork');
        $self->end_child('') if $$ != $own;
        return if !$check;
        $check->();
        undef $check;
    };
}

sub _begin {
    my $worker = shift;
    $SIG{$_} = 'IGNORE' for @{$worker->{discards}};    ## no critic (RequireLocalizedPunctuationVars)
    Howdah::Generators->renew;
    $worker->{app} //= $worker->_load;
    Howdah->run_hooks(after_fork => Howdah::XS::index());
    Howdah::NYTProf->begin if $worker->{nytprof};
    return;
}

sub _leave {
    my $status = shift;
    my $worker = $self or return;
    $self = undef;
    Howdah->run_hooks(worker_exit => Howdah::XS::index());
    _report_leaks();
    exit $status if $worker->{full_destruct};
    Howdah::XS::exit_now($status);
}

# The worker ends as any other, and its hooks let go of what no other process may have. Returns in the process that it leaves
# behind; its objects live on there, so they are not destroyed here.
sub _leave_zygote {
    my $worker = $self;
    $self = undef;
    Howdah->run_hooks(worker_exit => Howdah::XS::index());
    $worker->end_child('') if !Howdah::XS::is_worker();
    _report_leaks();
    my $control = eval { require Howdah::Refork; Howdah::Refork->attempt($worker->{known}) };
    Howdah::XS::refuse_promotion($@) if $@;
    if (!defined $control) {
        exit 0 if $worker->{full_destruct};
        Howdah::XS::exit_now(0);
    }
    Howdah::XS::exit_now(0) if $control < 0;
    $self = $worker;
    $self->{is_plain} &&= !Howdah::Generators->has_any;    # it may have been loaded in use
    _heed_children();
    my $ended = eval { $worker->{succeed}->($control) };
    return $control, $ended if defined $ended;
    print {*STDERR} "howdah: the process that was to be the next zygote failed: $@" if $@;
    return Howdah::XS::exit_now(1);
}

# In one piece, so that no other worker's lines come between.
sub _report_leaks {
    print {*STDERR} Howdah::Leaks->report if $INC{'Howdah/Leaks.pm'};
    return;
}

sub _load {
    my $worker = shift;
    my $app    = eval { $worker->{load}->() };
    my $error  = $@;
    $worker->end_child($error) if !Howdah::XS::is_worker();
    return $app if $app;
    $worker->{report}->(Howdah::XS::index() . ": the application does not load: " . Howdah->text_of($error));
    Howdah::XS::exit_now(CANNOT_LOAD);
}

# Signals are caught rather than ignored, because programs that the application runs would inherit the latter. The
# zygote, and a child that the application forks, do as any process does. What xs/signals.c catches in their stead cuts no
# read short; these are for perl to have when a local of the application ends.
sub _catch {
    my ($handler, @names) = @_;
    for my $name (@names) {
        $SIG{$name} = sub {
            goto &$handler if Howdah::XS::is_worker();
            $SIG{$name} = 'DEFAULT';    ## no critic (RequireLocalizedPunctuationVars)
            return kill $name => $$;
        };
    }
    return;
}

# Set by the application while it was loaded. One that ignores a signal need not be told from ours.
sub _has_own_handler { return ($SIG{$_[0]} // '') !~ /^(?:DEFAULT|IGNORE|)$/ }

# A handler of SIGCHLD stays as it is for the workers: here the signal is blocked. To ignore it would discard children, of which the
# zygote must know how they have ended, so workers go back to that.
sub _heed_children {
    $self->{discards} = [grep { ($SIG{$_} // '') eq 'IGNORE' } qw(CHLD CLD)];
    $self->{is_plain} &&= !@{$self->{discards}};
    $SIG{$_} = 'DEFAULT' for @{$self->{discards}};    ## no critic (RequireLocalizedPunctuationVars)
    return;
}

# The application called exit, or died outside of any request. Its children end here, too, but are no workers.
END {
    if ($self && Howdah::XS::is_worker()) {
        my $status = $?;
        Howdah::XS::leave(Howdah::XS::LEAVE_EXIT);
        Howdah::XS::abandon();
        my $worker = $self;
        $self = undef;
        Howdah::XS::say_last_words();
        Howdah->run_hooks(worker_exit => Howdah::XS::index());
        _report_leaks();
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

  # in the zygote
  Howdah::Worker->prepare(
      app    => $app,          # or load => sub { ... }, report => sub { my $message = shift; ... }
      name   => 'app.psgi',    # for the titles of processes
      titles => 1,             # which tell the present request
      check  => sub { ... },   # looks once at what the first worker is going to inherit
      known   => {...},        # descriptors of the zygote, see Howdah::Inherited
      succeed => sub { ... },  # makes a zygote of the process that a worker has left behind
  );
  my $status = Howdah::Worker->run($control, $ended);    # every worker is forked in here, and stays

=head1 DESCRIPTION

What L<Howdah::Zygote> forks. The loop itself is in C, see L<Howdah::XS>.

TERM and QUIT make the worker leave after the present request, without interrupting it: a read or write that waits goes on, as
with HUP, INT and USR1. USR2 makes it tell the error log
where in the Perl code it is, without arguments, and go on; the front sends it to a worker that exceeds
C<--request-timeout>, and so may you. That is told from C where the signal comes, not by the handler in C<%SIG>, which is
there for perl to have one after a C<local> of the application. URG makes the application die with a L<Howdah::ClientGone> if its client has left;
the front sends it with C<--abort-on-disconnect>. HUP, INT, USR1 and PIPE do nothing, since they concern the front. An
application may set its own handlers.

=head2 prepare(%given)

Once in the zygote, when the application is loaded: whatever workers can have in common.

=head2 run($control, $ended)

In the zygote, returns 0 when the front wants no more workers. C<$control> is the descriptor of the socket to the front,
C<$ended> becomes readable when a child has ended.

A worker that the front wants to leave a zygote behind (F<docs/refork.md>) runs its hooks and ends as any other; what it
leaves behind serves the front in here, too.

In a worker it never returns. The process ends with status 0 when the worker was asked to leave, with the application's
status after C<exit>, and with 3 when the application could not be loaded. See L<Howdah/LEAVING> for what runs at the
end; with C<full_destruct> that is everything.

=head2 end_child($error)

Ends a child that the application has forked while it was loaded, with status 0, or 255 when there is an error, which is logged.

=cut
