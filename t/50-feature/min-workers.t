# --min-workers: more workers while requests wait, up to --workers, and fewer when they are idle; no request notices.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Command qw(run_howdah);
use Howdah::Test::Load;
use Howdah::Test::Operator;
use Howdah::Test::Server;
use Test::More;

# Each request keeps its worker for a while without using the CPU.
my $app = <<'PSGI';
my $load = do './t/apps/load.psgi' or die;
sub { select undef, undef, undef, 0.03; $load->(@_) };
PSGI

my $operator = Howdah::Test::Operator->new;
my @options  = ('--min-workers', 1, '--max-workers', 3, $operator->options);
my $server   = Howdah::Test::Server->start(app => $app, options => \@options);
is scalar($server->workers), 1, 'it starts with the fewest';

my $single = Howdah::Test::Load->start($server, connections => 1, requests => 60)->finish;
is_deeply $single->{problems}, [];
is scalar($server->workers), 1, 'load that waits for nobody adds none';

my @load = map { Howdah::Test::Load->start($server, connections => 8, fresh => $_) } 0, 1;
ok $server->wait_until(sub { $server->workers == 3 }), 'requests that wait bring workers';
ok !$server->wait_until(sub { $server->workers > 3 }, 1), 'up to the most';
is $operator->status->{workers}{target}, 3, 'howdah status says so';
my @results = map { $_->stop->finish } @load;

ok $server->wait_until(sub { $server->workers == 1 }), 'idle workers leave';
push @results, Howdah::Test::Load->start($server, connections => 1, requests => 20)->finish;
is $operator->status->{workers}{target}, 1;

$operator->ask('workers', 6);
is $operator->status->{workers}{target}, 6, 'more than the most by hand';
push @results, Howdah::Test::Load->start($server, connections => 40, requests => 400)->finish;
unlike $server->log, qr/the number of workers changes from=6/, 'which no load takes away';

for my $result (@results) {
    is_deeply $result->{problems}, [];
    is_deeply [keys %{$result->{status}}], [200], "$result->{requests} requests";
}
unlike $server->log, qr/killed|signal/, 'nobody was killed';
is $server->stop, 0;

my ($status, undef, $err) = run_howdah('--min-workers', 5, '--workers', 3, '-e', 'sub { }');
is $status, 2, 'more than the most cannot be the fewest';
like $err, qr/--min-workers is above --workers/;

done_testing;
