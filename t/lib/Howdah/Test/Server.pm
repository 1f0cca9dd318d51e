package Howdah::Test::Server;

# A howdah of the test's own: started on a free port with a given application, stopped when it goes out of scope.
#
#   my $server = Howdah::Test::Server->start(app => 'sub { [200, [], ["hello"]] }', options => ['--workers', 2]);
#   $server->url; $server->port; $server->log; $server->workers; $server->stop;
#
# Every wait in it is bounded, and only processes started here are ever signalled.
use strict;
use warnings;

use File::Temp ();
use Howdah::Test::Command qw(howdah_bin);
use Howdah::Test::File qw(read_if_any);
use Howdah::Test::Process qw(descendants titled);
use Howdah::Test::Tls;
use POSIX qw(WNOHANG);
use Time::HiRes qw(sleep time);

# A noisy machine may take its time; a hung server must not take ours.
use constant PATIENCE => 30;

# Dies rather than hangs, so that servers are stopped. Those that work hardest take half a minute of a processor, of which a busy
# machine may give them a tenth. A test that needs longer says so by another alarm.
$SIG{ALRM} = sub { die "the test takes too long\n" };
alarm 400;

# Options: app (text of a .psgi) or file (its name); options; listen (default 127.0.0.1:0, undef for none);
# command (instead of howdah and its options); env; expect (what the log says once it serves).
sub start {
    my ($class, %wish) = @_;
    my $self  = $class->launch(%wish);
    my $ready = $wish{expect} // qr/serving .* on .*try  curl/s;
    $self->wait_for_log($ready) or die "the server did not start:\n" . $self->log;
    return $self;
}

# As start, but does not wait: for servers that are to fail.
sub launch {
    my ($class, %wish) = @_;
    my $dir     = File::Temp->newdir('howdah-test-XXXXXX', TMPDIR => 1);
    my $self    = bless {dir => $dir, log => "$dir/log", owner => $$}, $class;
    my $file    = $wish{file} // (defined $wish{app} ? $self->write_file('app.psgi', $wish{app}) : undef);
    my @listen  = exists $wish{listen} ? grep { defined } $wish{listen} : '127.0.0.1:0';
    my @command = $wish{command} ? @{$wish{command}} : (howdah_bin(), map { ('--listen', $_) } @listen);
    push @command, Howdah::Test::Tls->common->options if Howdah::Test::Tls->is_wanted && !$wish{command};
    push @command, @{$wish{options} // []}, $file // ();
    $self->{pid} = _spawn($self->{log}, {HOWDAH_CONTROL => "$dir/control", %{$wish{env} // {}}}, @command);
    return $self;
}

sub dir { return "$_[0]{dir}" }
sub pid { return $_[0]{pid} }

sub write_file {
    my ($self, $name, $text) = @_;
    open my $out, '>:raw', "$self->{dir}/$name" or die "cannot write $name: $!";
    print {$out} $text;
    close $out or die "cannot write $name: $!";
    return "$self->{dir}/$name";
}

# All that the server has said so far.
sub log {    ## no critic (ProhibitBuiltinHomonyms)
    my $self = shift;
    return read_if_any($self->{log});
}

sub wait_for_log {
    my ($self, $pattern, $patience) = @_;
    return $self->wait_until(sub { $self->log =~ $pattern || !$self->is_running && -1 }, $patience)
        && $self->log =~ $pattern;
}

# Waits until a condition holds: false when it never did.
sub wait_until {
    my ($self, $condition, $patience) = @_;
    my $end = time + ($patience // PATIENCE);
    while (1) {
        my $holds = $condition->();
        return $holds if $holds;
        return 0 if time > $end;
        sleep 0.02;
    }
}

# The addresses that the server printed, in the order of its listeners; behind a wildcard's stands which it is.
sub urls { return $_[0]->log =~ m{serving .*? on (\S+)(?: \([^()]*\))? (?:with|\(pid)}g }
sub url { return ($_[0]->urls)[0] }

sub port {
    my $self = shift;
    my ($port) = map { m{:(\d+)$} } grep { m{^https?://127} } $self->urls;
    return $port // die "no port in the log:\n" . $self->log;
}

# Process ids of those that call themselves "howdah: ROLE ..." and descend from this server.
sub processes {
    my ($self, $role) = @_;
    return titled($role, descendants(2, $self->{pid}));    # zygotes are children, workers grandchildren
}

# Resident memory of the front, in KiB, and how many descriptors it has open.
sub memory {
    my $self = shift;
    open my $in, '<', "/proc/$self->{pid}/status" or die $!;
    my ($size) = map { /^VmRSS:\s+(\d+)/ } <$in>;
    return $size;
}

sub descriptors { my @all = glob "/proc/$_[0]{pid}/fd/*"; return scalar @all }

# How many it has open once that is always the same: when it says that it serves, its threads are still taking over listeners.
sub descriptors_at_rest {
    my $self = shift;
    my ($count, $since) = (0, 0);
    $self->wait_until(sub {
        my $now = $self->descriptors;
        ($count, $since) = ($now, time) if $now != $count;
        return time - $since > 0.3;
    });
    return $count;
}

sub launchers { return $_[0]->processes('launcher') }
sub workers { return $_[0]->processes('worker') }

sub is_running {
    my $self = shift;
    return 0 if defined $self->{status};
    return 1 if waitpid($self->{pid}, WNOHANG) != $self->{pid};
    $self->{status} = $? & 127 ? 'signal ' . ($? & 127) : $? >> 8;
    return 0;
}

sub signal {
    my ($self, $signal) = @_;
    return $self->is_running && kill $signal, $self->{pid};
}

# The exit status, or undef when the server still runs after that time.
sub wait_for_exit {
    my ($self, $patience) = @_;
    $self->wait_until(sub { !$self->is_running }, $patience);
    return $self->{status};
}

# Stops the server, gracefully unless told otherwise: its exit status.
sub stop {
    my ($self, $signal) = @_;
    $self->signal($signal // 'TERM');
    my $status = $self->wait_for_exit // 'did not stop';
    $self->_kill_all if $status eq 'did not stop';
    return $status;
}

sub DESTROY {
    my $self = shift;
    return if $self->{owner} != $$ || !$self->{pid};
    local ($@, $!, $?);
    $self->signal('INT');
    defined $self->wait_for_exit(10) or $self->_kill_all;
    return;
}

sub _kill_all {
    my $self   = shift;
    my @family = ($self->{pid}, $self->processes(qr/(?:worker|zygote)/));
    kill KILL => @family if $self->is_running;
    $self->wait_for_exit(10);
    return;
}

sub _spawn {
    my ($log, $env, @command) = @_;
    my $pid = fork // die "cannot fork: $!";
    return $pid if $pid;
    open STDIN, '<', '/dev/null' or die $!;
    open STDOUT, '>>', $log or die $!;
    open STDERR, '>&', \*STDOUT or die $!;
    for my $name (keys %$env) {
        if (defined $env->{$name}) { $ENV{$name} = $env->{$name} }
        else { delete $ENV{$name} }
    }
    exec {$command[0]} @command or POSIX::_exit(127);
}

1;
