# Twenty reloads in a row under constant load: every request has its response, and nothing is left over.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Load;
use Howdah::Test::Operator;
use Howdah::Test::Server;
use Test::More;

my $operator = Howdah::Test::Operator->new;
my @options  = ('--workers', 2, $operator->options);
my $server   = Howdah::Test::Server->start(file => 't/apps/load.psgi', options => \@options);
my @load     = map { Howdah::Test::Load->start($server, connections => 6, seconds => 12, fresh => $_) } 0, 1;

for my $round (1 .. 20) {
    my ($status, $out, $err) = $operator->ask('reload');
    is $status, 0, "reload $round" or diag $err;
    is $out, 'generation ' . ($round + 1) . " serves\n";
}
for my $result (map { $_->finish } @load) {
    is_deeply $result->{problems}, [];
    is_deeply [keys %{$result->{status}}], [200], "$result->{requests} requests";
}
ok $server->wait_until(sub { $server->workers == 2 && $server->processes('zygote') == 1 }), 'one generation is left';
is $server->stop, 0;

done_testing;
