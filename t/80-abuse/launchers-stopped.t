# The launchers, which start processes for the confined front, are stopped (SIGSTOP). No request waits for them; one alone
# is replaced; and what was given up is not done later, when they go on.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Command qw(run_howdah);
use Howdah::Test::Operator;
use Howdah::Test::Server;
use List::Util qw(max);
use POSIX ();
use Test::More;
use Time::HiRes qw(sleep time);

my $APP = 'sub { [200, [], [$$]] }';
my $GET = "GET / HTTP/1.0\r\n\r\n";

my $operator = Howdah::Test::Operator->new;
my @options  = ('--workers', 2, '--max-memory', '1g', $operator->options);
my $server   = Howdah::Test::Server->start(app => $APP, options => \@options);

# Runs a command while requests are sent: its exit status, what it says, and the longest time that a request took.
sub under_requests {
    my @command = @_;
    my $pid     = open my $out, '-|' // die $!;
    if (!$pid) {
        my ($status, $said, $err) = run_howdah(@command, '--control', $operator->control);
        print $status, ' ', $said, $err;
        close STDOUT;
        POSIX::_exit(0);
    }
    my ($longest, $ready) = (0, '');
    vec($ready, fileno $out, 1) = 1;
    while (!select my $seen = $ready, undef, undef, 0.05) {
        my $start = time;
        is(Howdah::Test::Client->ask($server, $GET)->{status}, 200) or last;
        $longest = max($longest, time - $start);
    }
    local $/;
    return (<$out>, $longest);
}

subtest 'one: a reload finds the other, and requests do not notice' => sub {
    my ($stopped) = $server->launchers;
    kill STOP => $stopped;
    my ($said, $longest) = under_requests('reload');
    like $said, qr/^0 generation 2 serves/;
    cmp_ok $longest, '<', 3, 'no request waited for it';
    ok $server->wait_until(sub {
        $server->launchers == 2 && !grep { $_ == $stopped } $server->launchers;
        }),
        'it is replaced';
    ok $server->wait_for_log(qr/WARN.* a launcher does not answer; it may have been stopped/), '... and the log tells';
};

subtest 'both: what needs them fails in a bounded time, and is not done later' => sub {
    my @stopped = $server->launchers;
    kill STOP => @stopped;
    my ($said, $longest) = under_requests('reload');
    like $said, qr/^1 .*the launcher, which .* does not answer/s, 'a reload';
    cmp_ok $longest, '<', 3, 'no request waited for it';
    ok $server->wait_for_log(qr/ERROR.* no launcher answers: no reload/), 'the log says so';
    like $operator->status->{trouble}, qr/the launcher, .* does not answer/, '... and the status';
    my $start = time;
    like + ($operator->ask('upgrade'))[2], qr/does not answer/;
    cmp_ok time - $start, '<', 4, 'from now on at once';

    my $before = join ' ', sort($server->processes('zygote'), $server->workers);
    kill CONT => @stopped;
    ok $server->wait_for_log(qr/the launchers answer again/), 'they go on';
    sleep 1;
    is join(' ', sort($server->processes('zygote'), $server->workers)), $before, 'nobody is there twice';
    is $operator->status->{trouble}, undef, 'no trouble any more';
    is + ($operator->ask('reload'))[0], 0, 'a reload works';
    ok $server->wait_until(sub { $server->processes('zygote') == 1 && $server->workers == 2 }), 'of one kind each';
};

subtest 'the end of the server does not wait for them, nor do they stay behind' => sub {
    my @stopped = $server->launchers;
    kill STOP => @stopped;
    my $start = time;
    is $server->stop, 0;
    cmp_ok time - $start, '<', 8;
    ok $server->wait_until(sub {
        !grep { kill 0, $_ } @stopped;
    });
};

done_testing;
