# Connections by TLS, of HTTP/1.1 and of HTTP/2, while workers are killed, the application is loaded anew, the certificate is
# replaced, and so is the process. Each request is answered once and run once, by 502 where its worker was killed; clients,
# counters and access log agree.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Load;
use Howdah::Test::Operator;
use Howdah::Test::Server;
use Howdah::Test::StreamLoad;
use Howdah::Test::Tls;
use List::Util qw(sum0);
use Test::More;
use Time::HiRes qw(sleep time);

plan skip_all => 'needs IO::Socket::SSL and openssl' if !Howdah::Test::Tls->is_installed;
local $ENV{TEST_OVER_TLS} = 1;

my ($workers, $kills) = (4, 100);

sub start {
    my $operator = Howdah::Test::Operator->new;
    my ($log, $runs) = map { $operator->dir . "/$_" } qw(access runs);
    my $server = Howdah::Test::Server->start(
        file    => 't/apps/load.psgi',
        env     => {LOAD_RUNS => $runs},
        options => [
            $operator->options, '--workers', $workers, '--max-queue', 60,
            '--access-log', $log, '--access-log-format', '%>s %U'
        ],
    );
    my @load = (
        Howdah::Test::Load->start($server, connections => 6),
        Howdah::Test::Load->start($server, connections => 2, fresh => 1),
        Howdah::Test::StreamLoad->start($server, connections => 3, streams => 8),
    );
    $_->wait_for_connections for @load;
    return ($server, $operator, $log, $runs, @load);
}

sub lines {
    my $file = shift;
    open my $in, '<', $file or return;
    chomp(my @lines = <$in>);
    return @lines;
}

# What all clients have seen: status by name. Each name was logged once, with the same status, and run once at most.
sub account {
    my ($server, $log, $runs, @load) = @_;
    my @results  = map { $_->stop->finish } @load;
    my @problems = map { @{$_->{problems}} } @results;
    is scalar(@problems), 0, 'each request had exactly one right response' or diag explain [@problems[0 .. 9]];
    is scalar(grep { !$_->{status}{200} } @results), 0, 'by each way';
    my %seen = map { %{$_->{seen}} } @results;
    my %status;
    $status{$_}++ for values %seen;
    note join ', ', map { "$_: $status{$_}" } sort keys %status;

    # A response that was cut short had begun with 200.
    my @wanted = sort map { ($seen{$_} eq 'cut' ? 200 : $seen{$_}) . " /$_" } keys %seen;
    $server->wait_until(sub { lines($log) >= @wanted });
    my @logged = sort { $a cmp $b } lines($log);
    my %times;
    $times{$_} += 1 for @wanted;
    $times{$_} -= 1 for @logged;
    is_deeply [map { "$_ ($times{$_})" } grep { $times{$_} } sort keys %times], [], 'the log has each, once';
    my %run;
    $run{$_}++ for lines($runs);
    is_deeply [grep { $run{$_} > 1 } keys %run], [], 'none was run twice';
    is_deeply [grep { $seen{$_} =~ /^(?:200|cut)$/ && !$run{$_} } keys %seen], [], 'none is answered that was not';
    return \%status;
}

subtest 'a hundred killed workers' => sub {
    my ($server, $operator, $log, $runs, @load) = start();
    my $killed = 0;
    for (my $end = time + 60 ; $killed < $kills && time < $end ; sleep rand 0.1) {
        my @alive = $server->workers or next;
        $killed += kill KILL => $alive[rand @alive];
    }
    is $killed, $kills, 'so many';
    my $status = account($server, $log, $runs, @load);
    cmp_ok $status->{200}, '>', 5 * $kills, 'enough were served';
    is_deeply [grep { !/^(?:200|502|cut)$/ } keys %$status], [], 'nothing but 200 and 502';
    my $lost = ($status->{502} // 0) + ($status->{cut} // 0);
    cmp_ok $lost, '<=', $killed, 'a kill costs at most the request that ran';
    my $counted = $operator->status->{requests};
    is $counted->{total}, sum0(values %$status), 'the server has counted as many';
    is $counted->{by_class}{'5xx'}, $status->{502} // 0, '... of each kind';
    is $server->stop, 0, 'clean end';
    unlike $server->log, qr/panicked|written over shared memory/, 'with nothing to tell';
};

subtest 'reload, certificate, upgrade' => sub {
    my ($server, $operator, $log, $runs, @load) = start();
    my $shown = sub {
        my $socket = Howdah::Test::Tls::connect_to($server->port) or return 'nothing';
        return ($socket->peer_certificate('subjectAltNames'))[1];
    };
    is + ($operator->ask('reload'))[0], 0, 'howdah reload';
    Howdah::Test::Tls->common->replace(Howdah::Test::Tls->new(names => ['new.example']));
    $server->signal('HUP');
    ok $server->wait_until(sub { $shown->() eq 'new.example' }), 'another certificate';
    sleep 0.5;
    my $old = $operator->pid;
    my ($failed, undef, $why) = $operator->ask('upgrade');
    is $failed, 0, 'howdah upgrade' or diag $why;
    ok $operator->wait_for_end($old), 'the old process leaves';
    is $shown->(), 'new.example', 'the new one has the certificate';
    sleep 0.5;
    my $status = account($server, $log, $runs, @load);
    is_deeply [keys %$status], [200], 'nothing was lost' or diag explain $status;
    is + ($operator->ask('stop'))[0], 0, 'clean end';
    unlike $server->log, qr/ERROR|panicked/, 'with nothing to tell';
};

done_testing;
