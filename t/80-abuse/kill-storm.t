# Two hundred workers killed at random under load: every request has exactly one right response, or 502 if its worker was
# killed (or a response cut short, when it was already under way); afterwards every worker and every slot is there.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Load;
use Howdah::Test::Server;
use List::Util qw(sum0);
use Test::More;
use Time::HiRes qw(sleep time);

my $workers = 4;

# A machine so busy that it takes longer still gives up in time.
sub kill_at_random {
    my ($server, $wanted) = @_;
    my $kills = 0;
    for (my $end = time + 90 ; $kills < $wanted && time < $end ; sleep rand 0.2) {
        my @alive = $server->workers or next;
        $kills += kill KILL => $alive[rand @alive];
    }
    return $kills;
}

sub storm {
    my ($wanted, @options) = @_;

    # A queue so short that a few lost slots would show as 503.
    push @options, '--workers', $workers, '--max-queue', 30;
    my $server = Howdah::Test::Server->start(file => 't/apps/load.psgi', options => \@options);
    my @load   = (
        Howdah::Test::Load->start($server, connections => 12),
        Howdah::Test::Load->start($server, connections => 4, fresh => 1),
    );
    my $kills   = kill_at_random($server, $wanted);
    my @results = map { $_->stop->finish } @load;

    my @problems = map { @{$_->{problems}} } @results;
    is scalar(@problems), 0, 'each request had exactly one right response' or diag explain \@problems;
    my %status;
    for my $result (@results) { $status{$_} += $result->{status}{$_} for keys %{$result->{status}} }
    note sprintf '%d requests, %d kills: %s', sum0(values %status), $kills, join ', ',
        map { "$_ $status{$_}" } sort keys %status;
    is $kills, $wanted, 'so many were killed';
    cmp_ok $status{200} // 0, '>', 5 * $wanted, 'and enough served';
    is_deeply [grep { !/^(?:200|502|cut)$/ } keys %status], [], 'nothing but 200 and 502';
    cmp_ok sum0(map { $_ // 0 } @status{qw(502 cut)}), '<=', $kills, 'a kill costs at most the request that ran';

    ok $server->wait_until(sub { $server->workers == $workers }), 'all workers are back';
    my $after = Howdah::Test::Load->start($server, connections => 24, requests => 1000)->finish;
    is_deeply $after, {%$after, status => {200 => 1000}, problems => []}, 'and serve as before' or diag explain $after;
    unlike $server->log, qr/written over shared memory/, 'and no half of a worker\'s step looks like damage';
    is $server->stop, 0, 'clean end';
    return;
}

subtest 'two hundred' => sub { storm(200) };
subtest 'with two front threads and workers that also leave by themselves' =>
    sub { storm(60, '--front-threads', 2, '--spread-connections', '--max-requests', 50) };

done_testing;
