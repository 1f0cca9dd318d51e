# Thousands of connections at once, and requests on them at the same moment: each of these has an answer, and log and
# metrics tell of those that were not 200. CROWD=20000,9500 makes the crowd larger.
use strict;
use warnings;
use lib 't/lib';

use File::Temp ();
use Howdah::Test::Client;
use Howdah::Test::Crowd;
use Howdah::Test::Server;
use List::Util qw(sum0);
use Test::More;
use Time::HiRes qw(sleep);

my ($connections, $requests) = split /,/, $ENV{CROWD} // '2400,1200';
my $dir = File::Temp->newdir;
alarm 500 if $ENV{CROWD};

sub start {
    return Howdah::Test::Server->start(
        app     => 'sub { select undef, undef, undef, 0.0005; [200, [], ["hello"]] }',
        options => [qw(--workers 2 --header-timeout 60s --metrics-path /metrics --status-listen), "$dir/pages", @_],
    );
}

sub metric {
    my $name = shift;
    my $page = Howdah::Test::Client->ask("$dir/pages", "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")->{body};
    return $page =~ /^\Q$name\E (\d+)/m ? $1 : "no $name";
}

sub failures { return metric(qq(howdah_request_failures_total{cause="$_[0]"})) }

sub ask_all {
    my ($server, $pause) = @_;
    my $crowd = Howdah::Test::Crowd->gather($server, connections => $connections);
    sleep($pause // 0);
    my $outcome = $crowd->ask($requests);
    is sum0(values %$outcome), $requests, 'each request is accounted for';
    note join ', ', map { "$_: $outcome->{$_}" } sort keys %$outcome;
    return $outcome;
}

subtest 'what the queue has room for is served' => sub {
    my $server  = start('--max-queue', 8192);
    my $outcome = ask_all($server);
    my @others  = grep { !/^(?:200|503)$/ } keys %$outcome;
    is_deeply \@others, [], 'no other answer, and none without';
    cmp_ok $outcome->{200}, '>=', $requests < 8192 ? $requests : 8192;
};

subtest '--max-queue: what is beyond is refused with 503, counted and logged' => sub {
    my $server  = start('--max-queue', 100);
    my $outcome = ask_all($server);
    is_deeply [grep { !/^(?:200|408|503)$/ } keys %$outcome], [], 'nothing else';
    cmp_ok $outcome->{503}, '>', 0;
    is failures('queue_full'), $outcome->{503}, 'metrics tell how many';
    is $server->stop, 0;
    is sum0($server->log =~ /queue was full: refused (\d+) requests/g), $outcome->{503}, 'and the log, to the last';
};

subtest '--max-connections: who says nothing makes room for others, and is told so by 408' => sub {
    my $bound   = int($connections * 0.75);
    my $server  = start('--max-queue', 8192, '--max-connections', $bound);
    my $outcome = ask_all($server, 4);
    is_deeply [grep { !/^(?:200|408|503)$/ } keys %$outcome], [], 'nobody is left without an answer';
    is metric('howdah_connections_limit'), $bound, 'the metrics know the bound';
    cmp_ok metric('howdah_connections_dismissed_total'), '>=', $outcome->{408} // 0, 'and who had to go';
};

done_testing;
