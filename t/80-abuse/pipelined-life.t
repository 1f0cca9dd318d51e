# Clients that send several requests at once and read megabytes, while the server is reloaded, replaced and resized over and
# over, with room for all of them and with less: whatever closes a connection says so in a response, and every response
# is whole.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Load;
use Howdah::Test::Operator;
use Howdah::Test::Server;
use Howdah::Test::Tls;
use Test::More;
use Time::HiRes qw(sleep);

my @changes = (['reload'], ['upgrade'], ['workers', '+2'], ['upgrade'], ['workers', '-2'], ['reload']);
my @servers =
    (['--workers', 4], ['--workers', 3, '--front-threads', 2, '--spread-connections', '--keepalive-requests', 30]);

sub everything {
    my @options  = @_;
    my $operator = Howdah::Test::Operator->new;
    my $server   = Howdah::Test::Server->start(
        file    => 't/apps/load.psgi',
        options => [$operator->options, '--response-spool', '20m', @options],
    );
    my @load = map { Howdah::Test::Load->start($server, connections => 6, pipeline => $_, pad => 2_000_000) } 1, 5;
    $_->wait_for_connections for @load;
    for my $change (@changes) {
        sleep 0.3 + rand 0.7;
        my ($status, undef, $err) = $operator->ask(@$change);
        is $status, 0, "howdah @$change" or diag $err;
    }
    for my $result (map { $_->stop->finish } @load) {
        my @problems = @{$result->{problems}};
        is scalar(@problems), 0, 'nothing was lost' or diag explain [splice @problems, 0, 5];
        is_deeply [keys %{$result->{status}}], [200], "$result->{requests} requests";
    }
    is + ($operator->ask('stop'))[0], 0, 'clean end';
    unlike $server->log, qr/ERROR|panicked/, 'with nothing to tell';
    return;
}

Howdah::Test::Tls::either_way(sub { subtest "@$_" => \&everything, @$_ for @servers });

# A client of TLS that waits for a handshake neglects its other connections meanwhile, so not for that.
my @narrow = ('--workers', 4, '--max-connections', 5);
subtest "@narrow" => \&everything, @narrow;

done_testing;
