# kill -9 of the zygote under load: no request notices. Its workers go on until a new zygote has loaded the application
# and forked theirs.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Inject;
use Howdah::Test::Load;
use Howdah::Test::Operator;
use Howdah::Test::Process qw(descendants);
use Howdah::Test::Server;
use Test::More;

my $operator = Howdah::Test::Operator->new;
my @options  = ('--workers', 3, $operator->options);
my $server   = Howdah::Test::Server->start(file => 't/apps/load.psgi', options => \@options);
my @load     = map { Howdah::Test::Load->start($server, connections => 6, fresh => $_) } 0, 1;

# The zygote's pid once it, and nobody else's worker, serves.
sub settled {
    my $before = shift;
    my $zygote = $operator->status->{pools}[0]{zygote} // return 0;
    return 0 if $zygote == $before || $server->workers != 3;
    my %parent = map { $_ => parent($_) } $server->workers;
    return 0 if grep { $_ != $zygote } values %parent;
    return $zygote;
}

sub parent {
    my $pid = shift;
    open my $in, '<', "/proc/$pid/stat" or return 0;
    return (<$in> =~ /\) \S (\d+)/)[0];
}

my $zygote = settled(0);
for my $round (1 .. 6) {
    my @workers = $server->workers;
    kill KILL => $zygote or die "cannot kill the zygote $zygote: $!";
    is scalar(grep { kill 0, $_ } @workers), 3, 'its workers outlive it' if $round == 1;
    my $next = $server->wait_until(sub { settled($zygote) });
    ok $next, "round $round: a new zygote, and workers of its own" or last;
    ok $server->wait_until(sub {
        !grep { kill 0, $_ } @workers;
        }),
        'the workers without zygote have left';
    $zygote = $next;
}

# Both at once: those who were to take over are killed as well.
my @workers = $server->workers;
kill KILL => $zygote, $workers[0];
ok $server->wait_until(sub { settled($zygote) }), 'zygote and a worker killed together';

for my $result (map { $_->stop->finish } @load) {
    is_deeply $result->{problems}, [];
    my %status = %{$result->{status}};
    cmp_ok delete($status{200}), '>', 100, 'requests were served';
    cmp_ok + ($status{502} // 0) + ($status{cut} // 0), '<=', 1, 'only the killed worker may have failed one';
    delete @status{qw(502 cut)};
    is_deeply \%status, {}, 'nothing else was answered';
}
is $server->stop, 0;

subtest 'what was forked, and begins when its place is another\'s, is no worker' => sub {
    $server = Howdah::Test::Server->start(file => 't/apps/load.psgi', options => \@options);
    $zygote = $server->wait_until(sub { settled(0) });
    my %known = map { $_ => 1 } $server->workers;

# What was forked begins late, which among the zygote's processes calls set_robust_list alone, and the zygote is slow to report it
# behind the end of another.
    my $inject =
        Howdah::Test::Inject->new($zygote, 'set_robust_list:delay_enter=10000000', 'sendmsg:delay_enter=1000000:when=2')
        or plan skip_all => Howdah::Test::Inject->NEEDS;
    kill KILL => (keys %known)[0];
    my ($late) = $server->wait_until(sub {
        (grep { !$known{$_} } descendants(1, $zygote))[0];
    });
    ok $late, 'a child is forked';
    kill KILL => $zygote;
    $server->wait_until(sub { settled($zygote) });
    sleep 3;    # Two seconds after its zygote's end nobody waits for it any more.
    $operator->ask('workers', '+4');
    ok $server->wait_until(sub { $server->workers == 7 }), 'another has its place';
    my @workers = $server->workers;
SKIP: {
        skip 'a slow machine: it has begun before', 1 if !kill 0, $late;
        ok $server->wait_until(sub { !kill 0, $late }), 'it leaves when it begins';
    }
    is_deeply [sort map { $_->{pid} } @{$operator->status->{workers}{list}}], [sort @workers],
        '... and has touched nothing';
    $inject->end;
    is $server->stop, 0;
};

done_testing;
