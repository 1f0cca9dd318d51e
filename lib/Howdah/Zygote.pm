package Howdah::Zygote;
use v5.16;
use warnings;

use Fcntl ();

use Howdah ();
use Howdah::Loader ();
use Howdah::Worker ();
use Howdah::XS ();

# Workers of a front that is gone get this long to leave before they are killed, in seconds.
use constant ORPHAN_TIME => 1;

use constant {WNOHANG => 1, FAILED_TO_FORK => 256};

my %COMMANDS = (spawn => \&_spawn, stop => \&_stop);

# Started by the howdah command, with its wishes in the environment.
sub main {
    my $class = shift;
    my $wish  = delete $ENV{HOWDAH_ZYGOTE}
        // die "Howdah::Zygote->main is for the howdah command; start that, or plackup -s Howdah\n";
    require JSON::PP;
    Howdah::XS::exit_now($class->new(%{JSON::PP::decode_json($wish)})->run);
}

sub new {
    my ($class, %wish) = @_;
    return bless {preload => 1, children => {}, %wish}, $class;
}

# Returns the exit status.
sub run {
    my $self = shift;
    open $self->{socket}, '+<&=', $self->{control} or die "no control socket at descriptor $self->{control}: $!\n";
    fcntl $self->{socket}, Fcntl::F_SETFD(), Fcntl::FD_CLOEXEC();
    $self->_attach or return 1;
    if (!eval { $self->_prepare; 1 }) {
        $self->_tell("failed $@");
        return 1;
    }
    $self->{children_fd} = Howdah::XS::watch_children();
    $self->_tell('ready');
    $self->{on_ready}->() if $self->{on_ready};
    my $status = $self->_serve;
    return $status if defined $status;
    @_ = ('Howdah::Worker', $self->_worker);
    goto &Howdah::Worker::run;    # leaves no frames of ours in the application's backtraces
}

sub _attach {
    my $self = shift;
    my ($packet, $segment, @eventfds) = Howdah::XS::receive($self->{control});
    return 0 if !defined $packet;    # the front is gone already
    die "the front began with '$packet'\n" if $packet !~ /^attach (\d+)/ || $1 != @eventfds;
    Howdah::XS::map_segment($segment);
    _close($segment);
    $self->{eventfds} = \@eventfds;
    return 1;
}

sub _close {
    for my $fd (@_) {
        open my $handle, '<&=', $fd or next;
        close $handle;
    }
    return;
}

sub _load {
    my $self = shift;
    return Howdah::Loader->load(map { $_ => $self->{$_} } qw(app eval modules inc env path default_middleware));
}

# The front is gone: the workers have no one to serve.
sub _orphaned {
    my $self     = shift;
    my $deadline = time + ORPHAN_TIME + 1;
    kill TERM => keys %{$self->{children}};
    while (%{$self->{children}} && time < $deadline) {
        _readable($deadline - time, $self->{children_fd});
        $self->_reap;
    }
    kill KILL => keys %{$self->{children}};
    return 0;
}

sub _prepare {
    my $self = shift;
    $0 = $self->_title('zygote');
    if (defined $self->{user} || defined $self->{group}) {
        require Howdah::Privileges;
        Howdah::Privileges->drop(user => $self->{user}, group => $self->{group});
    }
    my $dir = $self->{chdir};
    !defined $dir || chdir $dir or die "cannot change to directory $dir: $!\n";
    $self->{code} //= $self->_load if $self->{preload};
    return;
}

# Those of the descriptors that can be read; waits for so many seconds, or without end.
sub _readable {
    my ($seconds, @fds) = @_;
    my $set = '';
    vec($set, $_, 1) = 1 for @fds;
    return if select($set, undef, undef, $seconds) <= 0;
    return grep { vec $set, $_, 1 } @fds;
}

sub _reap {
    my $self = shift;
    Howdah::XS::clear_children($self->{children_fd});
    while ((my $pid = waitpid -1, WNOHANG) > 0) {
        my $status = $?;
        my $index  = delete $self->{children}{$pid};
        $self->_tell("exited $index $pid $status") if defined $index;
    }
    return;
}

# Obeys the front. Returns the exit status, or undef in a child, which is to become a worker.
sub _serve {
    my $self = shift;
    until ($self->{stopping} && !%{$self->{children}}) {
        my %ready = map { $_ => 1 } _readable(undef, @$self{qw(control children_fd)});
        $self->_reap if $ready{$self->{children_fd}};
        next if !$ready{$self->{control}};
        my ($packet, @passed) = Howdah::XS::receive($self->{control});
        return $self->_orphaned if !defined $packet;
        my ($name, @words) = split / /, $packet;
        my $command = $COMMANDS{$name} || \&_wonder;
        $self->$command(\@words, \@passed);
        return undef if $self->{born};    ## no critic (ProhibitExplicitReturnUndef)
    }
    return 0;
}

sub _spawn {
    my ($self, $words, $channels) = @_;
    my $index = $words->[0];
    Howdah->run_hooks('before_fork');
    my $pid = fork;
    return $self->{born} = {index => $index, channels => $channels} if defined $pid && !$pid;
    _close(@$channels);
    $self->{children}{$pid} = $index if $pid;
    $self->_tell($pid ? "spawned $index $pid" : "log cannot fork worker $index: $!");
    return $pid || $self->_tell("exited $index 0 " . FAILED_TO_FORK);
}

sub _stop { return $_[0]{stopping} = 1 }

sub _tell { return Howdah::XS::send($_[0]{control}, $_[1]) }

sub _title {
    my ($self, $role) = @_;
    my $app = $self->{app} // '-e';
    return "howdah: $role $app" . ($self->{name} ? " [$self->{name}]" : '');
}

sub _wonder { return $_[0]->_tell("log the zygote does not know the command '@{$_[1]}'") }

# What a forked child needs to be a worker.
sub _worker {
    my $self  = shift;
    my $index = $self->{born}{index};
    _close($self->{children_fd});
    close $self->{socket} if $self->{code};
    return (
        %{$self->{born}},
        eventfds      => $self->{eventfds},
        app           => $self->{code},
        load          => sub { my $app = $self->_load; close $self->{socket}; $app },
        report        => sub { $self->_tell("log worker $index: $_[0]") },
        title         => $self->_title("worker $index"),
        full_destruct => $self->{full_destruct},
    );
}

1;

__END__

=encoding utf-8

=head1 NAME

Howdah::Zygote - loads the application once and forks workers

=head1 SYNOPSIS

  # by the howdah command, wishes in $ENV{HOWDAH_ZYGOTE} as JSON:
  perl -MHowdah::Zygote -e 'Howdah::Zygote->main'

  # by Plack::Handler::Howdah, with the application at hand:
  exit Howdah::Zygote->new(control => $fd, code => $app)->run;

=head1 DESCRIPTION

A child of the front. It maps the shared memory, loads the application, tells the front that it is ready (or why not),
and forks a worker whenever it is told to. It does nothing else, so it stays small and clean: a worker forked after a
week is as good as the first.

=head2 main

Takes the wishes from the environment variable C<HOWDAH_ZYGOTE>, runs and ends the process.

=head2 new(%wish)

=over 4

=item control

The descriptor of the socket to the front.

=item app, eval, modules, inc, env, path, default_middleware

As for L<Howdah::Loader>.

=item code

The application itself, when it is loaded already.

=item preload

False to load the application in each worker. Default true.

=item user, group

Names or numbers; the zygote changes to them before it loads the application.

=item chdir

A directory to change to before that.

=item name

Shown in the titles of the processes.

=item full_destruct

Workers leave with C<END> blocks and destructors.

=item on_ready

Called once the application is loaded.

=back

=head2 run

Serves the front until it is told to stop or the front is gone. Returns the exit status: 1 when the application could
not be loaded.

=cut
