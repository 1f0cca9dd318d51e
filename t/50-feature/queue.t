# Requests wait in one bounded queue: more are refused at once, those whose clients have left are not run.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Server;
use Socket qw(SOL_SOCKET SO_LINGER);
use Test::More;
use Time::HiRes qw(sleep time);

my $app = 't/apps/slow.psgi';

sub ask {
    my ($server, $path, $patience) = @_;
    my $client = Howdah::Test::Client->new($server);
    $client->write("GET $path HTTP/1.1\r\nHost: x\r\n\r\n");
    return $client;
}

subtest '--max-queue: 503 and Retry-After for the one too many (RFC 9110 15.6.4)' => sub {
    my $server  = Howdah::Test::Server->start(file => $app, options => ['--workers', 1, '--max-queue', 3]);
    my $running = ask($server, '/slow/2');
    $server->wait_for_log(qr{ran /slow});
    my @waiting = map { ask($server, "/waiting/$_") } 1 .. 3;
    sleep 0.3;
    my $start = time;
    for (1 .. 5) {
        my $refused = ask($server, '/refused');
        my $answer  = $refused->response;
        is $answer->{status}, 503;
        like $answer->{headers}{'retry-after'}[0] // '', qr/^\d+$/, 'Retry-After';
    }
    cmp_ok time - $start, '<', 1.5, 'at once, though the worker is busy';
    is_deeply [map { $_->response->{body} } @waiting], [map { "/waiting/$_" } 1 .. 3], 'the others have their turn';
    is $running->response->{status}, 200;
    is ask($server, '/after')->response->{status}, 200, 'and all is well again';
    ok $server->wait_for_log(qr/queue was full: refused 5 requests/), 'logged';
};

subtest 'requests are run in the order in which they came' => sub {
    my $server  = Howdah::Test::Server->start(file => $app, options => ['--workers', 1]);
    my @clients = (ask($server, '/slow/0.5'));
    $server->wait_for_log(qr{ran /slow});
    for my $number (1 .. 20) { push @clients, ask($server, "/number/$number"); sleep 0.01 }
    $_->response for @clients;
    $server->wait_for_log(qr{ran /number/20$}m);
    is_deeply [$server->log =~ m{ran /number/(\d+)}g], [1 .. 20];
};

# A client that only ends its side may still want the response, see half-closed.t.
for my $option (undef, '--abort-on-disconnect') {
    my $name = $option ? "with $option" : 'by a reset';
    subtest "a client that leaves while its request waits is forgotten: $name" => sub {
        my $server =
            Howdah::Test::Server->start(file => $app, options => ['--workers', 1, '--max-queue', 10, $option // ()]);
        my $running = ask($server, '/slow/2');
        $server->wait_for_log(qr{ran /slow});
        for (1 .. 4) {    # four times as many as may wait at once
            my @leaving = map { ask($server, '/left') } 1 .. 10;
            sleep 0.1;
            for my $client (@leaving) {
                setsockopt $client->socket, SOL_SOCKET, SO_LINGER, pack 'ii', 1, 0 if !$option;
                close $client->socket;
            }
            sleep 0.35;
        }
        my $staying = ask($server, '/stayed');
        is $staying->response->{body}, '/stayed';
        is $running->response->{status}, 200;
        unlike $server->log, qr{ran /left}, 'not one of them was run';
    };
}

subtest 'a client that leaves while its request runs costs nobody else' => sub {
    my $server = Howdah::Test::Server->start(file => $app, options => ['--workers', 2, '--max-queue', 4]);
    for my $round (1 .. 10) {
        my @leaving = map { ask($server, '/slow/0.05') } 1 .. 2;
        sleep 0.02;
        close $_->socket for @leaving;
        is ask($server, "/round/$round")->response->{body}, "/round/$round";
    }
};

subtest 'one slow request does not hold up others' => sub {
    my $server = Howdah::Test::Server->start(file => $app, options => ['--workers', 2]);
    my $slow   = ask($server, '/slow/3');
    $server->wait_for_log(qr{ran /slow});
    my $start = time;
    is ask($server, "/quick/$_")->response->{status}, 200 for 1 .. 50;
    cmp_ok time - $start, '<', 2.5;
    is $slow->response->{status}, 200;
};

done_testing;
