# All that looks at a running server at once, again and again, while requests come without a pause: none is lost, each command
# answers, and the workers are the same afterwards.
use strict;
use warnings;
use lib 't/lib';

use File::Temp ();
use Howdah::Test::Command qw(run_howdah);
use Howdah::Test::Load;
use Howdah::Test::Operator;
use Howdah::Test::Server;
use Howdah::Test::Traffic;
use Test::More;

my $dir      = File::Temp->newdir;
my $operator = Howdah::Test::Operator->new;
my $app      = <<'APP';
my $app = do './t/apps/load.psgi' or die $@ || $!;
my %kept;
sub { $kept{rand 50} = bless {}, 'Thing'; system '/bin/true' if rand() < 0.02; $app->(@_) };
APP
my $server  = Howdah::Test::Server->start(app => $app, options => ['--workers', 3, $operator->options]);
my @workers = sort $server->workers;

# Each command with what it has to say; those that need rights or modules which are not there are left out.
my %commands = (
    leaks   => [[qw(leaks --seconds 1)], qr/^\/: \d+ requests on \d workers/],
    heap    => [[qw(heap --why Thing)], qr/^\d+ objects of Thing in worker \d/m],
    where   => [[qw(where)], qr/^worker \d+, process \d+/m],
    profile => [['profile', '--seconds', 1, '--output', "$dir/p"], qr/^\d+ looks at \d workers/],
    trace   => [[qw(trace exec --seconds 1 --json)], qr/"what":"true"/],
    nytprof => [['profile', '--nytprof', '--seconds', 1, '--output', "$dir/n"], qr/has served \d+ requests under/],
);
my %needs = (
    trace   => sub { (run_howdah(qw(trace exec --all --seconds 10ms)))[0] == 0 },
    where   => sub { ($operator->ask('where'))[2] !~ /kernel does not let us/ },
    profile => sub { ($operator->ask('where'))[2] !~ /kernel does not let us/ },
    nytprof => sub {
        eval { require Devel::NYTProf::Core; 1 }
    },
);
for my $name (sort keys %needs) {
    next if $needs{$name}->();
    diag "without $name, which cannot be here";
    delete $commands{$name};
}

my $load = Howdah::Test::Load->start($server, connections => 8);
$load->wait_for_connections;
for my $round (1 .. 3) {
    my %looks =
        map { $_ => Howdah::Test::Traffic->begin(@{$commands{$_}[0]}, '--control', $operator->control) }
        sort keys %commands;
    for my $name (sort keys %looks) {
        my ($status, $out, $err) = $looks{$name}->outcome;
        is $status, 0, "$name, round $round" or diag $err;
        like $out, $commands{$name}[1], 'tells something';
    }
}
my $result = $load->stop->finish;
is_deeply $result->{problems}, [], 'each request has its answer';
is_deeply [%{$result->{status}}], [200 => $result->{requests}], "none of $result->{requests} is lost";
ok $server->wait_until(sub { "@{[sort $server->workers]}" eq "@workers" }), 'the workers are the same';
unlike $server->log, qr/killed|died|signal/, 'and nobody has crashed';
my $pool = $operator->status->{pools}[0];
is $pool->{workers}{target}, 3;
is $server->stop, 0, 'it ends well';

done_testing;
