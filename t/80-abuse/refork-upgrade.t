# An upgrade while a refork is under way, wherever that stands, and a refork while the process that is to replace this one loads the
# application: every request has its response, and of both processes nothing is left but what serves.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Load;
use Howdah::Test::Operator;
use Howdah::Test::Server;
use Test::More;

# A hook that WAITS, in a process that comes of a worker that has served, says so and is told when to go on. Whoever comes to a
# hook leaves its number.
my $APP = <<'PSGI';
use Howdah;
our ($is_old, $served);

sub note { open my $out, '>', "$ENV{SCRATCH}/$_[0]" or die $!; close $out or die $! }

sub wait_to_go {
    note("at-$_[0]");
    for (1 .. 1000) { last if -e "$ENV{SCRATCH}/go"; select undef, undef, undef, 0.02 }
}
LOAD
for my $hook (qw(before_fork after_fork worker_exit)) {
    Howdah->$hook(sub { note("pid-$$"); wait_to_go($hook) if $is_old && $hook eq 'WAITS' });
}
my $load = do './t/apps/load.psgi' or die;
sub { $is_old = 1 if ++$served == 40; $load->(@_) };
PSGI

# A server in which `waits` is that hook, under load from the moment that `begin` gives it.
sub start {
    my ($waits)  = @_;
    my $operator = Howdah::Test::Operator->new;
    my $self     = {operator => $operator, scratch => $operator->dir . '/scratch', waits => $waits};
    mkdir $self->{scratch} or die $!;
    $self->{file} = $operator->dir . '/app.psgi';
    write_app($self, '');
    $self->{server} = Howdah::Test::Server->start(
        file    => $self->{file},
        options => ['--workers', 3, '--refork', 50, $operator->options],
        env     => {SCRATCH => $self->{scratch}},
    );
    return $self;
}

sub write_app {
    my ($self, $load) = @_;
    open my $out, '>', $self->{file} or die $!;
    print {$out} $APP =~ s/LOAD/$load/r =~ s/WAITS/$self->{waits}/r;
    close $out or die $!;
    return;
}

sub begin {
    my $self = shift;
    $self->{load} = [map { Howdah::Test::Load->start($self->{server}, connections => 6, fresh => $_) } 0, 1];
    return;
}

sub pool { return $_[0]{operator}->status->{pools}[0] }
sub until_so { my ($self, $condition) = @_; return $self->{server}->wait_until($condition) }

sub until_at {
    my ($self, $where) = @_;
    return until_so($self, sub { -e "$self->{scratch}/at-$where" });
}

sub go { my $self = shift; open my $out, '>', "$self->{scratch}/go" or die $!; return close $out }

# Of all processes that have come to a hook, those that are still there.
sub left {
    my $self = shift;
    return grep { kill 0 => $_ } map { /-(\d+)$/ } glob "$self->{scratch}/pid-*";
}

sub all_served {
    my $self = shift;
    for my $result (map { $_->stop->finish } @{$self->{load}}) {
        is_deeply $result->{problems}, [];
        is_deeply [sort keys %{$result->{status}}], [200], "$result->{requests} requests";
    }
    return;
}

sub one_is_left {
    my $self = shift;
    ok until_so($self, sub { pool($self)->{reforks} == 1 && left($self) == 4 }), 'a zygote and its workers are left'
        or diag join ' ', left($self), $self->{server}->log;
    all_served($self);
    my $last = $self->{operator}->pid;
    is + ($self->{operator}->ask('stop'))[0], 0, 'it stops';
    ok $self->{operator}->wait_for_end($last);
    ok until_so($self, sub { !left($self) }), '... and so do they' or diag join ' ', left($self);
    return;
}

my %stages = (
    worker_exit => 'the worker leaves',
    before_fork => 'the new zygote begins',
    after_fork  => 'the workers of the new zygote begin',
);
for my $waits (sort keys %stages) {
    subtest "an upgrade while $stages{$waits}" => sub {
        my $self = start($waits);
        my $old  = $self->{operator}->pid;
        begin($self);
        ok until_at($self, $waits), 'it does';
        my ($status, undef, $error) = $self->{operator}->ask('upgrade');
        is "$status $error", '0 ', 'the upgrade succeeds';
        go($self);
        ok $self->{operator}->wait_for_end($old), 'the old process leaves' or diag $self->{server}->log;
        one_is_left($self);
    };

    subtest "an upgrade that fails while $stages{$waits}" => sub {
        my $self = start($waits);
        my $old  = $self->{operator}->pid;
        begin($self);
        ok until_at($self, $waits), 'it does';
        write_app($self, 'die "broken";');
        my ($status, undef, $error) = $self->{operator}->ask('upgrade');
        is $status, 1;
        like $error, qr/no upgrade, process $old goes on: .*broken/, 'the reason';
        go($self);
        one_is_left($self);
        like $self->{server}->log, qr/left the next zygote behind generation=2/, 'the refork went on';
    };
}

subtest 'a refork while the new process loads the application' => sub {
    my $self = start('none');
    my $old  = $self->{operator}->pid;
    write_app($self, 'wait_to_go("load");');
    kill USR2 => $old;
    ok until_at($self, 'load'), 'it does';
    begin($self);
    ok until_so($self, sub { pool($self)->{reforks} == 1 }), 'a worker has become the zygote';
    is $self->{operator}->pid, $old, 'of the old process';
    go($self);
    ok $self->{operator}->wait_for_end($old), 'which leaves when the new one serves';
    one_is_left($self);
};

done_testing;
