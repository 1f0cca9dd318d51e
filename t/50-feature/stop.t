# TERM and QUIT: every request that has been sent is answered, nothing new is let in, and nothing stays behind.
# INT: at once.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Frames;
use Howdah::Test::Operator;
use Howdah::Test::Server;
use IO::Socket::INET;
use List::Util qw(sum);
use Test::More;
use Time::HiRes qw(sleep time);

my $app = 't/apps/slow.psgi';

sub ask { return Howdah::Test::Client->asking(@_) }

sub is_gone {
    my ($server, @pids) = @_;
    return $server->wait_until(
        sub {
            !grep { kill 0, $_ } @pids;
        },
        10
    );
}

for my $signal ('TERM', 'QUIT') {
    subtest "$signal: running and waiting requests are answered" => sub {
        my $server = Howdah::Test::Server->start(file => $app, options => ['--workers', 2]);
        my $port   = $server->port;
        my $idle   = ask($server, '/idle');
        is $idle->response->{body}, '/idle';
        my $go      = $server->dir . '/go';
        my @running = map { ask($server, "/until$go") } 1 .. 2;
        $server->wait_for_log(qr{(?:ran /until.*){2}}s);
        my @waiting = map { ask($server, "/waiting/$_") } 1 .. 6;
        sleep 0.2;
        my @family = ($server->processes(qr/(?:worker|zygote)/));
        $server->signal($signal);
        ok $idle->is_closed, 'an idle connection is closed while they run';
        my $refused = sub { !IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port) };
        ok $server->wait_until($refused), 'new ones are not accepted';
        $server->write_file('go', '');

        for my $client (@running, @waiting) {
            my $answer = $client->response;
            is $answer->{status}, 200 or diag $answer->{error};
            is $answer->{headers}{connection}[0], 'close', 'with a word that it was the last';
        }
        is $server->wait_for_exit, 0, 'exit status';
        cmp_ok scalar @family, '>=', 3;
        ok is_gone($server, @family), 'no process stays behind';
    };
}

subtest 'a head that has begun and does not go on holds it up for a moment only' => sub {
    my $long   = 100;
    my $server = Howdah::Test::Server->start(
        file    => $app,
        options => ['--workers', 1, '--header-timeout', "${long}s", '--graceful-timeout', "${long}s"],
    );
    my $client = ask($server, '/first');
    is $client->response->{status}, 200;
    $client->write("GET /second HTTP/1.1\r\nHo");
    $server->signal('TERM');
    is $client->response->{status}, 408, 'its client is told';
    is $server->wait_for_exit, 0, 'and the server is gone long before --header-timeout is over';
};

subtest 'while requests under way hold it up, the status says that it stops' => sub {
    my $operator = Howdah::Test::Operator->new;
    my $server   = Howdah::Test::Server->start(file => $app, options => [$operator->options, '--workers', 1]);
    my (undef, $before) = $operator->ask('status');
    like $before, qr/^\S+ serves /, 'before';
    my $runs = ask($server, '/slow/60');
    $server->wait_for_log(qr{ran /slow});
    $server->signal('TERM');
    ok $server->wait_until(sub { $operator->status->{state} eq 'draining' }), 'for programs';
    my (undef, $out) = $operator->ask('status');
    like $out, qr/^\S+ is stopping /, 'for people';
    $server->signal('INT');
    is $server->wait_for_exit, 0;
};

subtest '--graceful-timeout bounds it' => sub {
    my $server = Howdah::Test::Server->start(file => $app, options => ['--workers', 1, '--graceful-timeout', '1s']);
    my $stuck  = ask($server, '/slow/60');
    $server->wait_for_log(qr{ran /slow});
    my @family = ($server->processes(qr/(?:worker|zygote)/));
    my $start  = time;
    is $server->stop, 0;
    cmp_ok time - $start, '>', 0.9;
    cmp_ok time - $start, '<', 15;
    ok is_gone($server, @family), 'the stuck worker, too';
};

subtest 'INT does not wait, nor does a second signal' => sub {
    for my $signals (['INT'], ['TERM', 'INT']) {
        my $server = Howdah::Test::Server->start(file => $app, options => ['--workers', 1]);
        my $stuck  = ask($server, '/slow/60');
        $server->wait_for_log(qr{ran /slow});
        my @family = ($server->processes(qr/(?:worker|zygote)/));
        for my $signal (@$signals) { $server->signal($signal); sleep 0.3 }
        is $server->wait_for_exit(10) // 'runs on', 0, "@$signals";
        ok is_gone($server, @family), 'nothing stays behind';
    }
};

subtest 'INT does not wait for what runs behind a response either' => sub {
    my $busy =
        'sub { push @{$_[0]{"psgix.cleanup.handlers"}}, sub { select undef, undef, undef, 300 }; [200, [], ["out"]] }';
    for my $patience ('0', '300s') {
        my $operator = Howdah::Test::Operator->new;
        my @options  = ($operator->options, '--workers', 2, '--graceful-timeout', $patience);
        my $server   = Howdah::Test::Server->start(app => $busy, options => \@options);
        is ask($server, '/')->response->{body}, 'out', "with --graceful-timeout $patience it has its response";
        $server->signal('TERM');
        ok $server->wait_until(sub { $server->workers == 1 }), 'who has nothing to do leaves';
        my ($status, undef, $error) = $operator->ask('upgrade');
        is $status, 1, 'a command is refused';
        like $error, qr/the server is stopping/, '... at once';
        $server->signal('INT');
        is $server->wait_for_exit(10) // 'runs on', 0, 'the other one is not waited for';
    }
};

subtest 'INT, as Ctrl-C sends it, costs one line however many workers there are' => sub {
    my $server = Howdah::Test::Server->start(file => $app, options => ['--workers', 8]);
    $server->wait_for_log(qr/all workers are ready/);
    is ask($server, '/once')->response->{status}, 200;
    my $before = length $server->log;
    is $server->stop('INT'), 0;
    my @lines = grep { !/ran / } split /\n/, substr $server->log, $before;
    like "@lines", qr/^\S+ INFO  front: stopping at once$/;

    $server = Howdah::Test::Server->start(file => $app, options => ['--workers', 2]);
    my $stuck = ask($server, '/slow/60');
    $server->wait_for_log(qr{ran /slow});
    is $server->stop('INT'), 0;
    is scalar(() = $server->log =~ /killed as asked/g), 1, 'and one for each that had a request';
};

subtest 'requests that wait for a worker when it does not go on are told so, at once' => sub {
    for my $signal ('INT', 'TERM') {
        my $operator = Howdah::Test::Operator->new;
        my @options  = ($operator->options, '--workers', 1, '--graceful-timeout', '1s');
        my $server   = Howdah::Test::Server->start(file => $app, options => \@options);
        my $runs     = ask($server, '/slow/61');
        $server->wait_for_log(qr{ran /slow});
        my @waiting = map { ask($server, "/waiting/$_") } 1 .. 100;
        my $streams = Howdah::Test::Frames->new($server);
        $streams->request($_, '/h2/waiting') for map { 2 * $_ - 1 } 1 .. 80;
        ok $operator->sees_waiting($server, 180), "$signal: they wait";
        is $server->stop($signal), 0;
        is $runs->response->{status}, 502, 'what its worker runs is lost';
        my @answers = map { $_->response } @waiting;
        is_deeply [grep { $_->{status} != 503 || !$_->{headers}{'retry-after'} } @answers], [],
            'what no worker has begun may be tried again';
        is_deeply [grep { ($_->{headers}{connection}[0] // '') ne 'close' } @answers], [], '... on another connection';
        is_deeply [grep { ($streams->response(2 * $_ - 1)->{status} // 0) != 503 } 1 .. 80], [], 'as it may by HTTP/2';
        ok $streams->is_closed, 'whose connection ends';
        is(($streams->goaways)[-1], 0, '... with a word to leave');
        my @told = $server->log =~ /refused (\d+) requests \(503\) that waited/g;
        is sum(@told), 180, 'and the log tells of all';
    }
};

subtest 'whatever is cut off has its line in the access log' => sub {
    my @logs  = ('--access-log', '-', '--access-log-format', '%m %U %s');
    my @lines = ('GET /h2/waits 503', 'GET /slow/61 502', 'GET /waits 503', 'POST /h2/upload -', 'POST /upload -');
    for my $signal ('INT', 'TERM') {
        my $operator = Howdah::Test::Operator->new;
        my @options  = ($operator->options, '--workers', 1, '--graceful-timeout', '1s', @logs);
        my $server   = Howdah::Test::Server->start(file => $app, options => \@options);
        my $runs     = ask($server, '/slow/61');
        $server->wait_for_log(qr{ran /slow});
        my $waits  = ask($server, '/waits');
        my $upload = Howdah::Test::Client->new($server);
        $upload->write("POST /upload HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\nExpect: 100-continue\r\n\r\n");
        is $upload->response->{status}, 100;
        $upload->write('half of it');
        my $streams = Howdah::Test::Frames->new($server);
        $streams->request(1, '/h2/waits');
        $streams->request(3, '/h2/upload', method => 'POST', open => 1);
        $server->wait_until(sub {
            my $state = $operator->status;
            return $state->{queue}{depth} == 2 && $state->{connections}{http2_streams} == 2;
        });
        is $server->stop($signal), 0, $signal;
        is_deeply [sort grep { /^(?:GET|POST) / } split /\n/, $server->log], \@lines, 'each once';
    }
};

subtest 'what was sent of a response that is cut off is told in the access log' => sub {
    my @logs = ('--access-log', '-', '--access-log-format', 'line %B %O');
    my @how  = ('--workers', 2, '--graceful-timeout', '1s', '--write-timeout', 0, '--min-send-rate', 0);
    for my $body (
        '["x" x 30_000_000]',
        'do { open my $file, "+>", undef or die $!; truncate $file, 30_000_000; $file }'
        )
    {
        my $server = Howdah::Test::Server->start(app => "sub { [200, [], $body] }", options => [@how, @logs]);
        my @ask    = map { ask($server, '/') } 1 .. 2;
        sleep 1;
        is $server->stop, 0;
        my @lines = $server->log =~ /^line (\d+) (\d+)$/mg;
        is scalar(@lines), 4, 'each has a line';
        cmp_ok $lines[0], '>', 100_000, 'the bytes of its body that were sent';
        cmp_ok $lines[1] - $lines[0], '>', 100, '... without those of its head' or diag "@lines";
        cmp_ok $lines[1] - $lines[0], '<', 500, '... alone';
    }
};

subtest 'when the front is killed, zygote and workers leave by themselves' => sub {
    my $server = Howdah::Test::Server->start(file => $app, options => ['--workers', 2]);
    my @family = ($server->processes(qr/(?:worker|zygote)/));
    is scalar(@family), 3;
    $server->signal('KILL');
    ok is_gone($server, @family);
};

done_testing;
