# Workers killed at random for twenty seconds under load: every request has exactly one right response, or 502 if its
# worker was killed; afterwards every worker and every slot is there.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Load;
use Howdah::Test::Server;
use List::Util qw(sum0);
use Test::More;
use Time::HiRes qw(sleep time);

my $workers = 4;

# A queue so short that a few lost slots would show as 503.
my @options = ('--workers', $workers, '--max-queue', 30);
my $server  = Howdah::Test::Server->start(file => 't/apps/load.psgi', options => \@options);
my @load    = (
    Howdah::Test::Load->start($server, connections => 12, seconds => 20),
    Howdah::Test::Load->start($server, connections => 4, seconds  => 20, fresh => 1),
);

my $kills = 0;
for (my $end = time + 20 ; time < $end ; sleep rand 0.25) {
    my @alive = $server->workers or next;
    $kills += kill KILL => $alive[rand @alive];
}

my @results  = map { $_->finish } @load;
my @problems = map { @{$_->{problems}} } @results;
is scalar(@problems), 0, 'each request had exactly one right response' or diag explain [@problems[0 .. 9]];
my %status;
for my $result (@results) { $status{$_} += $result->{status}{$_} for keys %{$result->{status}} }
note sprintf '%d requests, %d kills, status %s', sum0(values %status), $kills, join ', ', %status;
cmp_ok $kills, '>', 20, 'enough were killed';
cmp_ok $status{200} // 0, '>', 1000, 'and enough served';
is_deeply [grep { $_ !~ /^(?:200|502)$/ } keys %status], [], 'nothing but 200 and 502';
cmp_ok $status{502} // 0, '<=', $kills, 'a kill costs at most the request that the worker was running';

ok $server->wait_until(sub { $server->workers == $workers }), 'all workers are back' or diag scalar $server->workers;
my $after = Howdah::Test::Load->start($server, connections => 24, requests => 1000)->finish;
is_deeply $after, {%$after, status => {200 => 1000}, problems => []}, 'and serve as before' or diag explain $after;
is $server->stop, 0, 'clean end';

done_testing;
