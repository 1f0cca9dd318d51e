# --max-memory: an application that leaks has its workers replaced under load, and no request notices. What workers share
# with the zygote does not count.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Load;
use Howdah::Test::Operator;
use Howdah::Test::Server;
use Test::More;
use Time::HiRes qw(sleep);

# 60 MB that each worker shares with the zygote, and 30 kB more of its own with each request.
my $app = <<'PSGI';
my $load   = do './t/apps/load.psgi' or die;
my $shared = 'x' x 60_000_000;
my @leak;
sub { push @leak, 'y' x 30_000 if $ENV{LEAK}; $load->(@_) };
PSGI

my @options = ('--workers', 2, '--max-memory', '40m');
my $grown   = qr/worker has grown too large .*mebibytes=(\d+)/;

my $server = Howdah::Test::Server->start(app => $app, options => \@options, env => {LEAK => 1});
my @first  = $server->workers;
my @load   = map { Howdah::Test::Load->start($server, connections => 4, fresh => $_) } 0, 1;
ok $server->wait_until(sub {
    !grep { kill 0, $_ } @first;
    }),
    'every worker of the start is replaced';
for my $result (map { $_->stop->finish } @load) {
    is_deeply $result->{problems}, [];
    is_deeply [keys %{$result->{status}}], [200], "$result->{requests} requests";
}
my @sizes = $server->log =~ /$grown/g;
cmp_ok scalar @sizes, '>=', 2, "the log tells why: @sizes MiB";
is scalar(grep { $_ < 40 } @sizes), 0, 'none before its time';
ok $server->wait_until(sub { $server->workers == 2 }), 'as many are there as before';

my $frugal = Howdah::Test::Server->start(app => $app, options => \@options);
my @stay   = sort $frugal->workers;
is_deeply(Howdah::Test::Load->start($frugal, connections => 4, seconds => 5)->finish->{problems}, []);
is_deeply [sort $frugal->workers], \@stay, 'workers that do not grow stay, for two looks at their memory';
unlike $frugal->log, $grown;

subtest 'a limit below what a worker has from the start' => sub {
    my $operator = Howdah::Test::Operator->new;
    my $server   = Howdah::Test::Server->start(
        options => ['--workers', 2, '--max-memory', '2m', $operator->options],
        app     => <<'PSGI');
my $own;
Howdah->after_fork(sub { $own = 'x' x 6_000_000 });
sub { return [200, [], [$$]] };
PSGI
    my $told =
        qr/WARN .* a worker that has served nothing has \d+ KiB of its own, and may have 2048 by --max-memory: raise that/;
    ok $server->wait_for_log($told), 'is told';
    my @fresh = sort $server->workers;
    sleep 4.5;    # two looks at memory
    is_deeply [sort $server->workers], \@fresh, 'who has served nothing stays';
    is scalar(() = $server->log =~ /$told/g), 1, 'once';
    like $operator->status->{trouble}, qr/may have 2048 by --max-memory/, 'the status tells as long as it is so';
    my $served = Howdah::Test::Client->ask($server, "GET / HTTP/1.0\r\n\r\n")->{body};
    ok $server->wait_until(sub { !kill 0, $served }), 'who has served is replaced';
    is + ($operator->ask('stop'))[0], 0;
};

subtest 'a worker that somebody looks at' => sub {
    plan skip_all => 'no Devel::NYTProf' if !eval { require Devel::NYTProf::Core };
    my $operator = Howdah::Test::Operator->new;
    my $server   = Howdah::Test::Server->start(options => [@options, $operator->options], app => <<'PSGI');
my $leak = '';
sub { $leak = 'x' x 60_000_000 if $_[0]{QUERY_STRING} == $$; select undef, undef, undef, 0.05; return [200, [], [$$]] };
PSGI
    my %is_first = map { $_ => 1 } $server->workers;
    my $end      = $operator->begin('profile', '--nytprof', '--seconds', 40, '--output', $server->dir . '/p');
    my $guest    = $server->wait_until(sub {
        (grep { !$is_first{$_} } $server->workers)[0];
    }) or die 'there is none';
    my $grow = sub {
        my $pid = shift;
        return $server->wait_until(sub {

            # So many at a time that one worker alone cannot have them all.
            my @clients = map { Howdah::Test::Client->new($server) } 1 .. 6;
            $_->write("GET /?$pid HTTP/1.0\r\n\r\n") for @clients;
            return scalar grep { $_ == $pid } map { $_->response->{body} } @clients;
        });
    };
    my $is_large = sub {
        grep { $_->{pid} == $guest && ($_->{memory} // 0) > 40 << 20 } @{$operator->status->{pools}[0]{workers}{list}};
    };
    ok $grow->($guest) && $server->wait_until($is_large), 'it grows';
    sleep 2.5;    # memory is looked at every two seconds
    my ($other) = keys %is_first;
    ok $grow->($other) && $server->wait_until(sub { !kill 0, $other }, 20), 'it keeps nobody else from being replaced';
    ok kill(0, $guest), '... and stays';
    unlike $server->log, qr/worker has grown too large .*pid=$guest\b/;
    is + ($end->())[0], 0, '... to the end';
};

done_testing;
