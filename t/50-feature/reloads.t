# Twenty reloads in a row under constant load, and new versions that do not load or whose workers do not come up: every
# request has its response, and nothing is left over.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Load;
use Howdah::Test::Operator;
use Howdah::Test::Server;
use Test::More;

my $operator = Howdah::Test::Operator->new;
my @options  = ('--workers', 2, $operator->options);
my $server   = Howdah::Test::Server->start(app => version(''), options => \@options);
my @load     = map { Howdah::Test::Load->start($server, connections => 6, fresh => $_) } 0, 1;

sub version { return "$_[0]\ndo './t/apps/load.psgi' or die" }

for my $round (1 .. 20) {
    my ($status, $out, $err) = $operator->ask('reload');
    is $status, 0, "reload $round" or diag $err;
    is $out, 'generation ' . ($round + 1) . " serves\n";
}
my @broken = (
    ['use strict; $undeclared = 1;', qr/the new code does not load.*Global symbol "\$undeclared"/],
    ['exit 3;', qr/the new zygote failed.*exit status 3/],
    ['use Howdah; Howdah->after_fork(sub { kill KILL => $$ });', qr/the new workers end before they are ready/],
);
for my $case (@broken) {
    my ($code, $reason) = @$case;
    my @old = sort $server->workers;
    $server->write_file('app.psgi', version($code));
    my ($status, undef, $err) = $operator->ask('reload');
    is $status, 1, "a broken version: $code";
    like $err, $reason;
    is_deeply [sort $server->workers], \@old, 'the old workers go on';
}
$server->write_file('app.psgi', version(''));
is + ($operator->ask('reload'))[0], 0, 'and the mended one is loaded';

for my $result (map { $_->stop->finish } @load) {
    is_deeply $result->{problems}, [];
    is_deeply [keys %{$result->{status}}], [200], "$result->{requests} requests";
}
ok $server->wait_until(sub { $server->workers == 2 && $server->processes('zygote') == 1 }), 'one generation is left';
is $server->stop, 0;

done_testing;
