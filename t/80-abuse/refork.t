# --refork under load, and where somebody dies of it: the worker that is to leave the zygote behind, that zygote, its workers. The
# old zygote goes on, and every request has its response.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Load;
use Howdah::Test::Operator;
use Howdah::Test::Server;
use Test::More;

# What is loaded, and run at each request. $is_old is true in a process that comes of a worker that has served.
my $APP = <<'PSGI';
use Howdah;
our ($is_old, $served);
LOAD
my $load = do './t/apps/load.psgi' or die;
sub { $is_old = 1 if ++$served == 40; $load->(@_) };
PSGI

# A server under load until that holds, and what is left of it.
sub survives {
    my ($name, $load, $condition, %more) = @_;
    my $operator = Howdah::Test::Operator->new;
    my @options  = ('--workers', 3, '--refork', $more{refork} // 50, $operator->options);
    my $server   = Howdah::Test::Server->start(app => $APP =~ s/LOAD/$load/r, options => \@options, env => $more{env});
    my @load     = map { Howdah::Test::Load->start($server, connections => 6, fresh => $_) } 0, 1;
    my $pool     = sub { $operator->status->{pools}[0] };
    ok $server->wait_until(sub { $condition->($server, $pool->()) }), $name or diag $server->log;
    $more{then}->($server, $pool, $operator) if $more{then};

    for my $result (map { $_->stop->finish } @load) {
        is_deeply $result->{problems}, [];
        is_deeply [sort keys %{$result->{status}}], [200], "$result->{requests} requests";
    }
    ok $server->wait_until(sub { $server->workers == 3 && $server->processes('zygote') == 1 }),
        'one generation is left';
    is $server->stop, 0;
    return;
}

sub has_failed {
    my $reason = shift;
    return sub { my ($server, $pool) = @_; return $server->log =~ $reason && $pool->{lifecycle}{failed_reforks} };
}

sub goes_on {
    my ($server, $pool) = @_;
    is_deeply [@{$pool->()}{qw(generation reforks)}], [1, 0], 'the old zygote goes on';
    return;
}

subtest 'several in a row' => sub {
    my $refork = '50,100,150,200';
    survives(
        'four', '',
        sub { $_[1]{reforks} == 4 },
        refork => $refork,
        then   => sub {
            my ($server, $pool, $operator) = @_;
            is + ($operator->ask('reload'))[0], 0, 'a reload, and a refork soon after it';
            ok $server->wait_until(sub { $pool->()->{reforks} }), '... which begins with the first number';
        }
    );
};

subtest 'the zygote that a worker has left is killed, again and again' => sub {
    my %killed;
    my $kill = sub {
        my ($server, $pool) = @_;

        # Not before the server has it, or the refork fails, and the next one takes a minute.
        my $zygote = $pool->{reforks} && $pool->{zygote} // 0;
        for my $pid (grep { $_ == $zygote } $server->processes('zygote .*refork')) {
            $killed{$pid}++ if kill KILL => $pid;
        }
        return keys %killed >= 2;
    };
    survives(
        'two', '', $kill,
        then => sub {
            my ($server, $pool) = @_;
            ok $server->wait_until(sub { $pool->()->{zygote} && !$killed{$pool->()->{zygote}} }), 'there is another';
        }
    );
};

subtest 'it dies before it has a worker' => sub {
    my $load = 'Howdah->before_fork(sub { kill KILL => $$ if $is_old });';
    survives('the refork fails', $load, has_failed(qr/no refork, .*: the new zygote failed: /), then => \&goes_on);
};

subtest 'its workers die before they serve' => sub {
    my $load = 'Howdah->after_fork(sub { kill KILL => $$ if $is_old });';
    survives(
        'the refork fails', $load, has_failed(qr/no refork, .*: the new workers end before they are ready/),
        then => \&goes_on
    );
};

subtest 'the worker dies while it leaves' => sub {
    my $load = 'Howdah->worker_exit(sub { kill KILL => $$ if $is_old });';
    survives(
        'the refork fails', $load, has_failed(qr/no refork, .*: it has ended before it said anything/),
        then => \&goes_on
    );
};

subtest 'a reload while the worker leaves' => sub {
    my $load = <<'PSGI';
Howdah->worker_exit(sub {
    return if !$is_old;
    open my $out, '>', "$ENV{SCRATCH}/leaving" or die $!;
    close $out;
    for (1 .. 500) { last if -e "$ENV{SCRATCH}/go"; select undef, undef, undef, 0.02 }
});
PSGI
    my $scratch = Howdah::Test::Operator->new;
    survives(
        'it does',
        $load,
        sub { -e $scratch->dir . '/leaving' },
        env  => {SCRATCH => $scratch->dir},
        then => sub {
            my ($server, $pool, $operator) = @_;
            is + ($operator->ask('reload'))[0], 0, 'the reload succeeds';
            open my $go, '>', $scratch->dir . '/go' or die $!;
            ok $server->wait_for_log(qr/the refork is given up: something newer/),
                'the refork does not come in its way';
        }
    );
};

done_testing;
