# Requests wait in one bounded queue: more are refused at once, those whose clients have left are not run.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Frames;
use Howdah::Test::Operator;
use Howdah::Test::Server;
use List::Util qw(sum);
use Socket qw(SOL_SOCKET SO_LINGER);
use Test::More;
use Time::HiRes qw(sleep);

my $app      = 't/apps/slow.psgi';
my $operator = Howdah::Test::Operator->new;

sub start {
    my @options = @_;
    return Howdah::Test::Server->start(file => $app, options => [$operator->options, @options]);
}

sub ask { return Howdah::Test::Client->asking(@_) }

# A request that runs until it is let go.
sub hold {
    my $server = shift;
    my $client = ask($server, '/until' . $server->dir . '/go');
    $server->wait_for_log(qr{ran /until});
    return $client;
}

sub let_go { return $_[0]->write_file('go', '') }

subtest '--max-queue: 503 and Retry-After for the one too many (RFC 9110 15.6.4)' => sub {
    my $server  = start('--workers', 1, '--max-queue', 3);
    my $running = hold($server);
    my @waiting = map { ask($server, "/waiting/$_") } 1 .. 3;
    ok $operator->sees_waiting($server, 3), 'three wait';
    for (1 .. 5) {
        my $answer = ask($server, '/refused')->response;
        is $answer->{status}, 503, 'at once, though the worker is busy';
        like $answer->{headers}{'retry-after'}[0] // '', qr/^\d+$/, 'Retry-After';
    }
    let_go($server);
    is_deeply [map { $_->response->{body} } @waiting], [map { "/waiting/$_" } 1 .. 3], 'the others have their turn';
    is $running->response->{status}, 200;
    is ask($server, '/after')->response->{status}, 200, 'and all is well again';
    my $told = sub { sum(0, $server->log =~ /queue was full: refused (\d+) request/g) };
    ok $server->wait_until(sub { $told->() == 5 }), 'logged, once a second';
};

subtest 'most that have waited at once, though nobody looks meanwhile' => sub {
    my $server  = start('--workers', 1);
    my $queue   = sub { $operator->status->{pools}[0]{queue} };
    my @clients = hold($server);
    push @clients, map { ask($server, "/waiting/$_") } 1 .. 40;
    ok $operator->sees_waiting($server, 40), 'forty wait';
    let_go($server);
    $_->response for @clients;
    ok $server->wait_until(sub { $queue->()->{peak} == 40 }), 'a queue that was there for long';

    # Within a tenth of a second, where the status looks at the queue once in a second.
    for (1 .. 3) {
        my @burst = map { Howdah::Test::Client->new($server) } 0 .. 60;
        $burst[$_]->write('GET ' . ($_ ? '/short' : '/slow/0.1') . " HTTP/1.1\r\nHost: x\r\n\r\n") for 0 .. 60;
        $_->response for @burst;
    }
    ok $server->wait_until(sub { $queue->()->{peak} > 40 }, 5), 'one that came and went' or diag explain $queue->();
};

# What the status says of the last minute, once it says so much of the queue.
sub recent_peak {
    my ($server, $peak) = @_;
    $server->wait_until(sub { ($operator->status->{recent}{queue_peak} // 0) >= $peak }, 10);
    return $operator->status->{recent}{queue_peak};
}

subtest 'a queue that was full for a moment, by either protocol, is so in the last minute' => sub {
    for my $protocol ('HTTP/1', 'HTTP/2') {
        my $server  = start('--workers', 1, '--max-queue', 5);
        my $running = hold($server);
        my @statuses;
        if ($protocol eq 'HTTP/1') {
            my @clients = map { ask($server, '/short') } 1 .. 20;
            $server->wait_until(sub { $operator->status->{requests}{failures}{queue_full} == 15 });
            let_go($server);
            @statuses = map { $_->response->{status} } @clients;
        }
        else {
            my $client  = Howdah::Test::Frames->new($server);
            my @streams = map { 2 * $_ - 1 } 1 .. 20;
            $client->request($_, '/short') for @streams;
            $server->wait_until(sub { $operator->status->{requests}{failures}{queue_full} == 15 });
            let_go($server);
            @statuses = map { $client->response($_)->{status} } @streams;
        }
        is scalar(grep { $_ == 503 } @statuses), 15, "$protocol: so many too many";
        is scalar(grep { $_ == 200 } @statuses), 5, 'and the others wait';
        is $running->response->{status}, 200, 'for the one that runs';
        is recent_peak($server, 5), 5, 'the most that have waited';
        is $operator->status->{queue}{depth}, 0, '... when none does any more';
    }
};

subtest 'a burst between two looks is so, too' => sub {
    my $server = start('--workers', 1);
    my $client = Howdah::Test::Frames->new($server);
    my $stream = -1;

    # Within a tenth of a second, where the status looks at the queue once in a second.
    for (1 .. 3) {
        my @burst = map { $stream += 2 } 0 .. 60;
        $client->request($_, $_ == $burst[0] ? '/slow/0.1' : '/short') for @burst;
        is scalar(grep { $client->response($_)->{status} != 200 } @burst), 0, 'all have their turn';
    }
    cmp_ok recent_peak($server, 41), '>', 40, 'most of it has waited';
};

subtest 'of several applications it is what waits for all of them' => sub {
    my $server  = start('--workers', 1, '--mount', "/admin=$app");
    my $go      = $server->dir . '/go';
    my @running = map { ask($server, "$_/until$go") } '', '/admin';
    $server->wait_for_log(qr{(?:ran /until.*){2}}s);
    my @waiting = map { ask($server, '/waiting') } 1 .. 7;
    my $client  = Howdah::Test::Frames->new($server);
    $client->request(2 * $_ - 1, '/admin/waiting') for 1 .. 12;
    ok $operator->sees_waiting($server, 19), 'they wait';
    is recent_peak($server, 19), 19, 'all together';
    let_go($server);
    $_->response for @running, @waiting;
    $client->response(2 * $_ - 1) for 1 .. 12;
    ok $operator->sees_waiting($server, 0), 'and are gone';
    my $status = $operator->status;
    is $status->{recent}{queue_peak}, 19, 'the last minute has had them';
    is_deeply [map { $_->{queue}{peak} } @{$status->{pools}}], [7, 12], 'each application its own';
};

subtest 'requests are run in the order in which they came' => sub {
    my $server  = start('--workers', 1);
    my @clients = hold($server);
    for my $number (1 .. 20) {
        push @clients, ask($server, "/number/$number");
        $operator->sees_waiting($server, $number);
    }
    let_go($server);
    $_->response for @clients;
    $server->wait_for_log(qr{ran /number/20$}m);
    is_deeply [$server->log =~ m{ran /number/(\d+)}g], [1 .. 20];
};

# A client that only ends its side may still want the response, see half-closed.t.
for my $option (undef, '--abort-on-disconnect') {
    my $name = $option ? "with $option" : 'by a reset';
    subtest "a client that leaves while its request waits is forgotten: $name" => sub {
        my $server  = start('--workers', 1, '--max-queue', 10, $option // ());
        my $running = hold($server);
        for (1 .. 4) {    # four times as many as may wait at once
            my @leaving = map { ask($server, '/left') } 1 .. 10;
            ok $operator->sees_waiting($server, 10), 'ten wait';
            for my $client (@leaving) {
                setsockopt $client->socket, SOL_SOCKET, SO_LINGER, pack 'ii', 1, 0 if !$option;
                close $client->socket;
            }
            ok $operator->sees_waiting($server, 0), '... and leave';
        }
        my $staying = ask($server, '/stayed');
        let_go($server);
        is $staying->response->{body}, '/stayed';
        is $running->response->{status}, 200;
        unlike $server->log, qr{ran /left}, 'not one of them was run';
    };
}

subtest 'a client that leaves while its request runs costs nobody else' => sub {
    my $server = start('--workers', 2, '--max-queue', 4);
    for my $round (1 .. 10) {
        my @leaving = map { ask($server, '/slow/0.05') } 1 .. 2;
        sleep 0.02;
        close $_->socket for @leaving;
        is ask($server, "/round/$round")->response->{body}, "/round/$round";
    }
};

subtest 'one slow request does not hold up others' => sub {
    my $server = start('--workers', 2);
    my $slow   = hold($server);
    is ask($server, "/quick/$_")->response->{status}, 200 for 1 .. 50;
    ok $slow->is_quiet(0), 'it still runs';
    let_go($server);
    is $slow->response->{status}, 200;
};

done_testing;
