package Plack::Handler::Howdah;
use v5.16;
use warnings;

use Errno ();
use Fcntl ();
use Socket ();

use Howdah ();
use Howdah::Loader ();
use Howdah::Zygote ();

# What the command calls the application: it was loaded here, and plackup does not say from which file. Whoever calls us by himself is one.
sub _app { return $INC{'Plack/Runner.pm'} || !length $0 ? 'plackup' : $0 }

# What plackup and other servers' users write, and howdah's own spelling.
my %SPELLED = (max_workers => 'workers', max_reqs_per_child => 'max_requests');

# Options that take no value: true gives the option, false leaves it out.
my %IS_FLAG =
    map { $_ => 1 }
    qw(disable_keepalive no_preload no_proctitle no_request_id no_server_header no_status full_destruct
    preload_app);

# Settings whose falsehood is an option (plackup makes `keepalive => ''` of --disable-keepalive).
my %WHEN_FALSE = (
    keepalive     => 'disable_keepalive',
    preload       => 'no_preload',
    proctitle     => 'no_proctitle',
    request_id    => 'no_request_id',
    server_header => 'no_server_header',
);

# Things for this module, not for the command.
my %OWN = map { $_ => 1 } qw(daemonize host leak_report listen listen_sock port psgi_app_builder server_ready socket);

# Settings that are done here, at least in part; the command, which reads the variables of all others, comes too late for these.
my @DONE_HERE = qw(daemonize full_destruct group leak_report name no_preload user);

# What is on or off, here or for the command.
my %IS_SWITCH = (%IS_FLAG, %WHEN_FALSE, map { $_ => 1 } qw(daemonize leak_report));

# What plackup itself hands over, with a value or without.
my %HAS_NO_WORD = map { $_ => 1 } qw(host listen port psgi_app_builder server_ready socket);

# The words that the command takes.
my $TRUE  = qr/^(?:y|yes|t|true|on|\d*[1-9]\d*)$/i;
my $FALSE = qr/^(?:n|no|f|false|off|0*)$/i;

sub new {
    my ($class, %args) = @_;
    _take_last(\%args) if $INC{'Plack/Runner.pm'};
    for my $name (grep { defined $args{$_} && !ref $args{$_} } sort keys %args) {
        _refuse($name, $args{$name}) if $args{$name} =~ /^-[-a-zA-Z_]/;
        $args{$name} = _truth($args{$name}) // _refuse($name, $args{$name}) if $IS_SWITCH{$name};
    }
    $args{$_} //= _from_environment($_) for @DONE_HERE;
    return bless \%args, $class;
}

# The last option of plackup's command line has no value there. For whoever calls us by himself that is none.
sub _take_last {
    my $args = shift;
    for my $name (grep { !defined $args->{$_} && !$HAS_NO_WORD{$_} } sort keys %$args) {
        my $option = $name =~ tr/_/-/r;
        die "--$option has no value: write --$option=VALUE\n" if !$IS_SWITCH{$name};
        $args->{$name} = 1;
    }
    return;
}

# It is most likely the next word of the command line, which would be missed there.
sub _refuse {
    my ($name, $value) = @_;
    my $option = $name =~ tr/_/-/r;
    die "--$option got the value '$value': plackup gives every option a value; write --$option=1\n";
}

# Undefined where that is no answer.
sub _truth {
    my $value = shift;
    return $value =~ $TRUE ? 1 : $value =~ $FALSE ? 0 : undef;
}

# A wrong word is for the command to refuse, which reads the variable, too.
sub _from_environment {
    my $name  = shift;
    my $value = $ENV{"HOWDAH_\U$name"} // return;
    return $IS_SWITCH{$name} ? _truth($value) : $value;
}

sub run {
    my ($self, $given) = @_;
    my $app       = Howdah::Loader->code($given, 'what plackup has loaded');
    my $command   = Howdah->binary;
    my @arguments = $self->arguments;
    require Howdah::Leaks if $self->{leak_report};
    my $launcher = $self->{daemonize} && $self->_daemonize;
    my ($ours, $theirs) = _socket_pair(Socket::SOCK_SEQPACKET());
    defined(my $pid = fork) or die "cannot fork the zygote: $!\n";

    if (!$pid) {
        close $_ for $ours, $launcher || ();                          # whose ends are to tell that the front has ended
        close $self->{listen_sock} if $self->{listen_sock};
        my $control = Howdah::XS::copy_descriptor(fileno $theirs);    # one that workers can close behind Perl's back
        close $theirs;
        Howdah::XS::exit_now($self->_be_zygote($app, $control));
    }
    close $theirs;
    unshift @arguments, '--zygote-fd', _kept_over_exec($ours), '--zygote-pid', $pid;
    unshift @arguments, '--daemonize', '--launcher-fd', _kept_over_exec($launcher) if $launcher;
    local $ENV{SERVER_STARTER_PORT} = $self->_bound if $self->{listen_sock};
    exec {$command} 'howdah', 'serve', @arguments, '--', _app() or die "cannot run $command: $!\n";
}

sub _socket_pair {
    my $type = shift;
    socketpair my $one, my $other, Socket::AF_UNIX(), $type, 0 or die "cannot create a socket pair: $!\n";
    return ($one, $other);
}

# A socket that listens already, as the command takes it over. It asks the socket where that listens.
sub _bound { return 'listen_sock=' . _kept_over_exec($_[0]{listen_sock}) }

# Its number.
sub _kept_over_exec {
    my $handle = shift;
    fcntl $handle, Fcntl::F_SETFD(), 0 or die "cannot keep descriptor over exec: $!\n";
    return fileno $handle;
}

# Arguments for the howdah command, in a fixed order.
sub arguments {
    my $self      = shift;
    my @arguments = $self->_listeners;
    for my $name (sort grep { !$OWN{$_} } keys %$self) {
        push @arguments, _argument($SPELLED{$name} // $name, $self->{$name});
    }
    return $self->_preload(@arguments);
}

# Who loads the application is said by plackup's loader, not by an option: it stands here already, or comes with its builder.
sub _preload {
    my ($self, @arguments) = @_;
    my @others = grep { $_ ne '--no-preload' } @arguments;
    return @others, '--no-preload' if $self->{psgi_app_builder};
    return @others if @others == @arguments;
    die "--no-preload is too late: plackup has loaded the application; write -L Delayed to have each worker load it\n";
}

sub _argument {
    my ($name, $value) = @_;
    if (my $negative = $WHEN_FALSE{$name}) {
        return $value ? () : _argument($negative, 1);
    }
    my $option = '--' . $name =~ tr/_/-/r;
    return $value ? $option : () if $IS_FLAG{$name};
    return map { "$option=$_" } ref $value eq 'ARRAY' ? @$value : $value // ();
}

sub _be_zygote {
    my ($self, $app, $control) = @_;
    setpgrp;
    Howdah::XS::unblock_signals();    # who has started plackup may block some, and workers would not hear TERM
    my $builder = $self->{psgi_app_builder};
    my $zygote  = Howdah::Zygote->new(
        control       => $control,
        code          => $builder ? undef : $app,
        build         => $builder,
        preload       => !$builder,
        app           => _app(),
        full_destruct => $self->{full_destruct},
        user          => $self->{user},
        group         => $self->{group},
        name          => $self->{name},
        on_ready      => sub { $self->_announce },
    );
    return $zygote->run;
}

sub _announce {
    my $self    = shift;
    my $ready   = $self->{server_ready} or return;
    my ($first) = $self->_addresses;
    my ($host, $port) = ($first // '') =~ /^(.*):(\d+)$/ ? ($1, $2) : (undef, undef);
    return if !$port;    # plackup can only print an address with a port
    $ready->({%$self, server_software => 'Howdah', host => $host || 0, port => $port});
    return;
}

# plackup gives listen as well as what it was made of.
sub _addresses {
    my $self = shift;
    return if $self->{listen_sock};
    return @{$self->{listen}} if ref $self->{listen} && @{$self->{listen}};
    return $self->{listen} if defined $self->{listen} && length $self->{listen};
    return $self->{socket} if defined $self->{socket};
    my $host = $self->{host} // '';
    $host = "[$host]" if $host =~ /:/ && $host !~ /^\[/;
    return "$host:" . ($self->{port} || 5000);
}

# plackup must stay the zygote's parent, so it goes to the background before it forks that. Who called it waits, as behind
# C<howdah -D>, for what the command says on the socket that this returns; until then errors go where they always do.
sub _daemonize {
    die "-r and -D do not go together: plackup can restart no server in the background; write howdah -r -D\n"
        if $INC{'Plack/Loader/Restarter.pm'};
    require POSIX;
    my ($launcher, $background) = _socket_pair(Socket::SOCK_STREAM());
    _go_on_in_child(sub { close $background; _is_ready($launcher) ? 0 : 1 });
    close $launcher;
    POSIX::setsid();
    _go_on_in_child(sub { 0 });    # no longer a session leader, so never a terminal again
    open STDIN, '<', '/dev/null' or die "cannot open /dev/null: $!\n";
    open STDOUT, '>', '/dev/null' or die "cannot open /dev/null: $!\n";
    return $background;
}

# Waits until that is known. The application may have handlers, so a signal may come between.
sub _is_ready {
    my $launcher = shift;
    my $got;
    do { $got = sysread $launcher, my $ready, 1 } until defined $got || !$!{EINTR};
    return $got;
}

# The parent ends with the status that the code returns.
sub _go_on_in_child {
    my $status = shift;
    defined(my $pid = fork) or die "cannot fork: $!\n";
    Howdah::XS::exit_now($status->()) if $pid;
    return;
}

sub _listeners {
    my $self = shift;
    return map { ('--listen', m{[/:]} ? $_ : "unix:$_") } $self->_addresses;
}

1;

__END__

=encoding utf-8

=head1 NAME

Plack::Handler::Howdah - plackup -s Howdah

=head1 SYNOPSIS

  plackup -s Howdah app.psgi
  plackup -s Howdah --port 8080 --max-workers 10 --max-reqs-per-child 1000 app.psgi
  plackup -s Howdah -E deployment -S /run/app.sock --keepalive-timeout=30 app.psgi

  my $handler = Plack::Handler::Howdah->new(port => 8080, workers => 10);
  $handler->run($app);

=head1 DESCRIPTION

Serves an application that is loaded already. L<plackup> loads it; C<run> forks a child that keeps it, from which all
workers are forked later, and then becomes the C<howdah> command, under the same process id. TERM and QUIT stop
gracefully, INT at once. HUP replaces the workers but cannot load the application anew: for that, start C<howdah> itself,
or use plackup's C<-r>.

C<howdah app.psgi> does the same without C<plackup>, and can reload.

With plackup's C<-L Delayed> each worker loads the application for itself, before its first request, as with
C<howdah --no-preload>; so it is loaded anew by a reload, apart from modules that plackup has loaded, as by its C<-M>.

=head1 OPTIONS

C<new> takes the options of the C<howdah> command with underscores for dashes, as C<plackup> hands them over;
C<howdah --help> lists them. One that does not exist is refused at start. Variables such as C<HOWDAH_WORKERS> count as
with the command; those that say where to listen do not, because plackup always says that.

=over 4

=item host, port, socket, listen

Where to listen. C<listen> may be a reference to an array of C<HOST:PORT>, C<:PORT> and paths; it counts before the
others. Default C<:5000>, every address.

=item listen_sock

A socket that listens already, as C<< Plack::Test::Server->new($app, listen => 1) >> gives it. It counts alone.

=item workers, max_workers

Perl processes.

=item max_requests, max_reqs_per_child

Requests after which a worker is replaced; 0 for never.

=item refork

Requests of one worker after which it becomes the zygote, or several numbers with commas between them; see
F<docs/refork.md>.

=item daemonize

Go to the background once the server is ready; the exit status says whether it is. Output goes nowhere from then on,
unless C<error_log> is given.

=item keepalive, server_header

False switches it off. On the command line write C<--disable-keepalive> last or C<--keepalive=0>.

=item leak_report

Each worker prints at its end which objects are left, as L<Howdah::Leaks> tells.

=item server_ready

Code that is called when the application can be served, with a reference to a hash with C<host>, C<port> and
C<server_software>.

=back

plackup takes the word behind an option that it does not know for the value, so C<--no-server-header app.psgi> would lose the
application, and have plackup look for F<app.psgi> in its place; behind C<--no-confine --workers 1> it looks for an application
C<1>, and says that it cannot find F<1.pm>. It is so with every server: write C<--no-confine=1>. The handler refuses such a value, and for a switch all but C<1>,
C<0> and words like C<on> and C<no>, and says what to write. A switch that is the last word is on; any other option without a
value is refused there.

=head1 METHODS

=head2 new(%args)

Dies when an option has swallowed the next one, or got no value from plackup.

=head2 run($app)

Does not return. Dies when C<$app> is no application, or when C<preload> is false and the application is loaded already: write C<-L Delayed>.

=head2 arguments

What the command is called with, apart from the zygote.

=cut
