# TERM under load: every request that was sent before the server closed its connection has its response, 200 and whole,
# the last one on each connection with a word that it is. So has every client that has connected before the socket is closed, but
# for one that does so in the last hundredth of a millisecond.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Load;
use Howdah::Test::Server;
use Test::More;
use Time::HiRes qw(sleep);

my $app = <<'PSGI';
my $load = do './t/apps/load.psgi' or die;
sub {
    my $env = shift;
    return $load->($env) if $env->{PATH_INFO} ne '/slow';
    print STDERR "slow has begun\n";
    select undef, undef, undef, 1.5;
    return [200, [], ['slow']];
};
PSGI

for my $options (
    ['--workers', 3], ['--workers', 2, '--front-threads', 2, '--spread-connections'],
    ['--workers', 3, '--max-requests', 20]
    )
{
    my $server = Howdah::Test::Server->start(app => $app, options => $options);
    my @load   = map { Howdah::Test::Load->start($server, connections => 12, reopen => 0, rests => 0.25) } 1, 2;
    $_->wait_for_connections for @load;
    my $slow = Howdah::Test::Client->asking($server, '/slow');
    ok $server->wait_for_log(qr/slow has begun/), "TERM with @$options";
    my @family = $server->processes(qr/(?:worker|zygote)/);

    $server->signal('TERM');
    my $answer = $slow->response;
    is $answer->{body}, 'slow', 'the one that has begun is finished' or diag $answer->{error};
    is $answer->{headers}{connection}[0], 'close';
    for my $result (map { $_->finish } @load) {
        is_deeply $result->{problems}, [];
        is_deeply [keys %{$result->{status}}], [200], "$result->{requests} requests";
    }
    is $server->wait_for_exit, 0, 'exit status';
    ok $server->wait_until(sub {
        !grep { kill 0, $_ } @family;
        }),
        'no process stays behind';
}

# Each request on a connection of its own, until nobody can connect any more.
for my $options ([], ['--front-threads', 2], ['--max-connections', 8]) {
    my $server = Howdah::Test::Server->start(app => $app, options => ['--workers', 3, @$options]);
    my @load   = map { Howdah::Test::Load->start($server, connections => 8, fresh => 1, until_refused => 1) } 1, 2;
    $_->wait_for_connections for @load;
    my $silent = Howdah::Test::Client->new($server);
    sleep 0.2;
    $server->signal('TERM');
    $server->wait_for_log(qr/stopping/);
    $silent->write("GET /1-1 HTTP/1.1\r\nHost: x\r\n\r\n");
    is $silent->response->{status}, 200, "a client that had connected has an answer with @$options";

    for my $result (map { $_->finish } @load) {
        my @odd = @{$result->{problems}};
        cmp_ok scalar(@odd), '<=', 1, "of $result->{requests} requests on new connections" or diag "@odd";
        is_deeply [keys %{$result->{status}}], [200], 'no other answer';
    }
    is $server->wait_for_exit, 0, 'exit status';
}

done_testing;
