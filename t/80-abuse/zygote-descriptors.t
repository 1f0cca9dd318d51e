# A zygote, or a host of scripts, that has no number left for the channels of a worker that it is to start: the log tells why, the
# server goes on trying, and has the worker once there is room.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Descriptors qw(can_limit fill_up);
use Howdah::Test::Operator;
use Howdah::Test::Scripts;
use Howdah::Test::Server;
use Test::More;

plan skip_all => 'no prlimit (util-linux)' if !can_limit();

sub status {
    my ($server, $path) = @_;
    return Howdah::Test::Client->ask($server, "GET $path HTTP/1.1\r\nHost: x\r\n\r\n")->{status};
}

subtest 'a zygote' => sub {
    my $server   = Howdah::Test::Server->start(app => 'sub { [200, [], ["here"]] }', options => ['--workers', 1]);
    my ($zygote) = $server->processes('zygote');
    my ($worker) = $server->workers;
    my $empty    = fill_up($zygote);
    kill KILL => $worker;
    ok $server->wait_for_log(
        qr/cannot fork worker 0: Too many open files; the zygote has no descriptor left:.*ulimit -n/),
        'the log tells why';
    ok $server->wait_for_log(qr/workers cannot be started, as the log tells before; the next is started in/),
        'it is tried again';
    unlike $server->log, qr/worker died: exit status 1|end before they serve/, 'nobody has died that never was';
    $empty->();
    ok $server->wait_until(sub { $server->workers == 1 }), 'the worker comes';
    is status($server, '/'), 200, '... and serves';
};

subtest 'a host of scripts' => sub {
    my $operator = Howdah::Test::Operator->new;
    my $scripts  = Howdah::Test::Scripts->new('here.cgi' => qq{printf 'Content-Type: text/plain\\n\\nhere'\n});
    my $server   = $scripts->serve('exec', ['workers=1'], $operator->options);
    my ($host)   = $server->processes('cgi-host');
    my $empty    = fill_up($host);
    is + ($operator->ask("workers", "+1"))[0], 0, "another worker is wanted";
    ok $server->wait_for_log(qr/cannot start worker 1: .*; the host of scripts has no descriptor left:.*ulimit -n/),
        'the log tells why';
    $empty->();
    my $both = sub {
        2 == grep { $_->{state} eq 'idle' } @{$operator->status->{workers}{list} // []};
    };
    ok $server->wait_until($both), 'the worker comes';
    is status($server, '/c/here.cgi'), 200, '... and scripts run';
};

done_testing;
