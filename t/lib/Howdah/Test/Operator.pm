package Howdah::Test::Operator;

# An operator: knows a server by its control socket and its pid file, and asks it by the howdah command.
#
#   my $operator = Howdah::Test::Operator->new;
#   my $server   = Howdah::Test::Server->start(app => ..., options => [$operator->options]);
#   my ($status, $out, $err) = $operator->ask('reload');
#   $operator->status->{generation}; $operator->pid;
#
# A server that has replaced itself is no child of the test any more; this ends it, too.
use strict;
use warnings;

use File::Temp ();
use Howdah::Test::Command qw(begin_howdah run_howdah);
use Howdah::Test::File qw(read_if_any);
use JSON::PP ();
use Time::HiRes qw(sleep);

sub new {
    my $class = shift;
    my $dir   = File::Temp->newdir('howdah-test-XXXXXX', TMPDIR => 1);
    return bless {dir => $dir, owner => $$}, $class;
}

sub dir { return "$_[0]{dir}" }
sub control { return "$_[0]{dir}/control" }
sub pid_file { return "$_[0]{dir}/pid" }
sub options { my $self = shift; return ('--control', $self->control, '--pid', $self->pid_file) }

# my ($status, $stdout, $stderr) = $operator->ask('workers', '+1');
sub ask {
    my ($self, @command) = @_;
    return run_howdah(@command, '--control', $self->control);
}

# The same, begun; what is returned waits for its end and has the answer.
sub begin {
    my ($self, @command) = @_;
    return begin_howdah(@command, '--control', $self->control);
}

sub status {
    my $self = shift;
    my ($status, $out, $err) = $self->ask('status', '--json');
    die "howdah status: $err" if $status;
    return JSON::PP::decode_json($out);
}

# True once so many requests wait for a worker of the one application.
sub sees_waiting {
    my ($self, $server, $count) = @_;
    return $server->wait_until(sub { $self->status->{queue}{depth} == $count });
}

# The process id in the pid file.
sub pid {
    my $self = shift;
    open my $in, '<', $self->pid_file or return;
    my ($pid) = <$in> =~ /^(\d+)$/;
    return $pid;
}

sub is_running {
    my ($self, $pid) = @_;
    return defined $pid && read_if_any("/proc/$pid/cmdline") =~ /\Q$self->{dir}\E/;
}

# False when that process is still there after ten seconds.
sub wait_for_end {
    my ($self, $pid) = @_;
    for (1 .. 500) {
        return 1 if !$self->is_running($pid);
        sleep 0.02;
    }
    return 0;
}

sub DESTROY {
    my $self = shift;
    local ($@, $!, $?);
    return if $self->{owner} != $$ || !$self->{dir};    # perl may have destroyed that first
    my $pid = $self->pid;
    return if !$self->is_running($pid);
    kill INT => $pid;
    $self->wait_for_end($pid) or kill KILL => $pid;
    return;
}

1;
