# Streams of one connection: they run beside each other, each at its own pace, and end as responses of HTTP/1 do.
use strict;
use warnings;
use lib 't/lib';

use File::Temp ();
use Howdah::Test::Frames qw(LAST);
use Howdah::Test::Server;
use Socket qw(IPPROTO_TCP SOL_SOCKET SO_RCVBUF TCP_NODELAY);
use Test::More;
use Time::HiRes qw(sleep time);

my @options = ('--workers', 4, '--request-timeout', '2s');
my $server  = Howdah::Test::Server->start(file => 't/apps/streams.psgi', options => \@options);

subtest 'what an application says is what comes' => sub {
    my $client = Howdah::Test::Frames->new($server);
    my $stream = -1;
    for (
        ['GET', '/pid', 200, qr/^\d+$/],
        ['HEAD', '/pid', 200, qr/^$/],
        ['HEAD', '/grows', 200, qr/^$/],
        ['HEAD', '/file', 200, qr/^$/],
        ['GET', '/204', 204, qr/^$/],
        ['GET', '/205', 205, qr/^$/],
        ['GET', '/304', 304, qr/^$/],
        ['GET', '/none', 404, qr/^\?$/],
        ['GET', '/die', 500, qr/^500 /],
        ['GET', '/after', 200, qr/^whole$/],
        ['GET', '/long', 200, qr/^whole$/],
        ['GET', '/longer', 200, qr/^whole$/],
        ['GET', '/grows', 200, qr/^1\n2\n3\n4\n5\n$/],
        ['GET', '/file', 200, qr/\A./],
        ['GET', '/hang', 504, qr/^504 /],
        )
    {
        my ($method, $path, $status, $body) = @$_;
        $client->request($stream += 2, $path, method => $method);
        my $response = $client->response($stream);
        is $response->{status}, $status, "$method $path";
        like $response->{body}, $body, 'its body';
        ok $response->{end}, 'its end';
    }
    for (['/short', 'short'], ['/dies', 'a little'], ['/dies-promising', 'a little']) {
        my ($path, $body) = @$_;
        $client->request($stream += 2, $path);
        my $response = $client->response($stream);
        is $response->{reset}, 2, "$path is no whole response";
        is_deeply [$response->{status}, $response->{body}], [200, $body], 'but what there is of it comes before';
    }
    for (['short', 'reset the stream'], ['long', 'cut it off there'], ['longer', 'cut it off there']) {
        my ($path, $what) = @$_;
        ok $server->wait_for_log(qr{Content-Length \d+ but a body of \d+ bytes to GET /$path; $what}),
            "and the log: $path";
    }
    $client->request($stream += 2, '/hints');
    is_deeply $client->response($stream)->{heads}, [103, 200], 'interim responses go before it';
};

subtest 'the end of a response is told with its last byte, not with the end of the code' => sub {

    # Whose workers are busy afterwards.
    my $server = Howdah::Test::Server->start(file => 't/apps/streams.psgi', options => ['--workers', 4]);
    my $client = Howdah::Test::Frames->new($server, settings => {4 => 1 << 20});
    my $start  = time;
    $client->send('WINDOW_UPDATE', 0, 0, pack 'N', 1 << 20);
    $client->request(1, '/works');
    $client->request(3, '/works-on');
    $client->request(5, '/works-behind-a-file');

    for ([1, 'whole'], [3, 'whole'], [5, 'x' x 200_000]) {
        my ($stream, $body) = @$_;
        my $response = $client->response($stream);
        ok $response->{status} == 200 && $response->{body} eq $body && $response->{end}, "stream $stream";
    }
    cmp_ok time - $start, '<', 2, 'the client does not wait for what is done behind it';
    $client->request(7, '/204');
    is $client->response(7)->{status}, 204, 'and the connection goes on';
};

subtest 'a response without a body is one frame, as gRPC has it of a call that fails' => sub {
    my $client = Howdah::Test::Frames->new($server);
    $client->request(1, '/empty', method => 'POST');
    my $frame = $client->next_frame;
    $frame = $client->next_frame while $frame && $frame->{stream} != 1;
    is $frame->{type}, 'HEADERS', 'its head';
    ok $frame->{flags} & LAST, 'is its end';
};

subtest 'sixty-four at a time on four workers' => sub {
    my $client  = Howdah::Test::Frames->new($server);
    my @streams = map { 2 * $_ + 1 } 0 .. 63;
    my $start   = time;
    $client->request($_, '/pid') for @streams;
    my %pids = map { $client->response($_)->{body} => 1 } @streams;
    cmp_ok time - $start, '<', 0.05 * 64 * 0.8, 'beside each other';
    cmp_ok scalar keys %pids, '>', 1, 'on several workers';
};

subtest 'a stream that is not read stops neither the others nor a worker' => sub {
    my $client = Howdah::Test::Frames->new($server);
    $client->send('WINDOW_UPDATE', 0, 0, pack 'N', 1 << 30);
    $client->request($_, '/big') for 1, 3, 5, 7, 9, 11;
    $client->request(13, '/pid');
    ok $client->response(13)->{end}, 'all workers are free for the next';
    is length $client->response($_, 0.2)->{body}, 65535, "stream $_ has what its window takes" for 1, 11;
    $client->send('WINDOW_UPDATE', 0, 1, pack 'N', 1 << 30);
    is length $client->response(1)->{body}, 3_000_000, 'and the rest when it is opened';
    ok $client->response(1)->{end}, 'to its end';
};

subtest 'a response does not wait behind megabytes of another that the kernel has' => sub {
    my $client = Howdah::Test::Frames->new($server, settings => {4 => 1 << 24});
    setsockopt $client->socket, SOL_SOCKET, SO_RCVBUF, 16_384;
    $client->send('WINDOW_UPDATE', 0, 0, pack 'N', 1 << 24);
    $client->request(1, '/big');
    sleep 0.5;
    $client->request(3, '/pid');
    ok $client->response(3)->{end}, 'it comes';
    cmp_ok length $client->response(1, 0)->{body}, '<', 500_000, 'behind what the network had taken, and a little more';
    is length $client->response(1)->{body}, 3_000_000, 'and the other comes whole';
};

subtest 'bodies of several streams come mixed' => sub {
    my $client  = Howdah::Test::Frames->new($server);
    my @streams = (1, 3, 5);
    $client->request($_, '/length', method => 'POST', open => 1) for @streams;
    for my $round (1 .. 20) {
        $client->send('DATA', $round == 20 ? LAST : 0, $_, 'x' x 10_000) for @streams;
        $client->next_frame(0.01) for 1 .. 3;
    }
    is $client->response($_)->{body}, 200_000, "stream $_" for @streams;
};

subtest 'who is refused in the midst of a body has a moment to come to the response' => sub {
    my $server = Howdah::Test::Server->start(file => 't/apps/streams.psgi', options => ['--max-body-size', 100_000]);
    my $client = Howdah::Test::Frames->new($server);
    my %length = (fields => [['content-length', 300_000]]);
    $client->request($_, '/length', method => 'POST', open => 1, %length) for 1, 3;
    is $client->response($_)->{status}, 413, "stream $_" for 1, 3;

    # Longer than who says nothing is waited for.
    for my $round (1 .. 20) {
        $client->send('DATA', $round == 20 ? LAST : 0, 1, 'x' x 15_000);
        my $next = time + 0.15;
        $client->next_frame($next - time) while time < $next;
    }
    my $end = time + 10;
    while (time < $end && !defined $client->response(3, 0)->{reset}) { $client->next_frame(0.1) }
    is $client->response(3, 0)->{reset}, 0, 'who says no more is told to say no more';
    is $client->response(1, 0)->{reset}, undef, 'who goes on is not';
    $client->request(5, '/pid');
    is $client->response(5)->{status}, 200, 'another stream is served';
};

subtest 'a client that breaks a stream off has left, and the others go on' => sub {
    my $client = Howdah::Test::Frames->new($server);
    $client->send('WINDOW_UPDATE', 0, 0, pack 'N', 1 << 30);
    $client->request(1, '/endless');
    ok $server->wait_for_log(qr/begun/), 'it begins';
    $client->send('RST_STREAM', 0, 1, pack 'N', 8);
    ok $server->wait_for_log(qr/left after \d+/), 'its worker comes loose';
    $client->request(3, '/pid');
    ok $client->response(3)->{end}, 'another stream is served';
};

subtest 'the access log has what was sent of a response that its client breaks off' => sub {
    my $log    = File::Temp->new;
    my $server = Howdah::Test::Server->start(
        file    => 't/apps/streams.psgi',
        options => ['--access-log', "$log", '--access-log-format', '%U %s %b %X']
    );
    my $client = Howdah::Test::Frames->new($server);
    $client->request(1, '/big');
    is length $client->response(1, 0.3)->{body}, 65_535, 'it has what its window takes';
    $client->send('RST_STREAM', 0, 1, pack 'N', 8);
    ok $server->wait_until(sub { -s "$log" }), 'a line comes';
    open my $in, '<', "$log" or die $!;
    is scalar(<$in>), "/big 200 65535 X\n", 'and says so';
};

subtest 'with --abort-on-disconnect the worker of a stream that is broken off is interrupted' => sub {
    my $server = Howdah::Test::Server->start(
        file    => 't/apps/streams.psgi',
        options => ['--workers', 1, '--abort-on-disconnect']
    );
    my $client = Howdah::Test::Frames->new($server);
    $client->request(1, '/hang');
    $client->request(3, '/pid');
    sleep 0.5;
    $client->send('RST_STREAM', 0, 1, pack 'N', 8);
    is $client->response(3, 10)->{status}, 200, 'it takes the next request';
    ok $server->wait_for_log(qr{GET /hang: the client has left}), 'and says why';
};

subtest 'a local redirect of a script' => sub {
    my $dir = File::Temp->newdir;
    open my $out, '>', "$dir/there.cgi" or die $!;
    print {$out} "#!/bin/sh\nprintf 'Location: /pid\\n\\n'\n";
    close $out;
    chmod 0755, "$dir/there.cgi";
    my $server = Howdah::Test::Server->start(file => 't/apps/streams.psgi', options => ['--cgi', "/cgi=$dir"]);
    my $client = Howdah::Test::Frames->new($server);
    $client->request(1, '/cgi/there.cgi');
    like $client->response(1)->{body}, qr/^\d+$/, 'is followed';
};

subtest 'what a worker had handed over before it was killed comes when the windows are opened' => sub {
    my $server = Howdah::Test::Server->start(file => 't/apps/streams.psgi', options => ['--workers', 2]);
    my $client = Howdah::Test::Frames->new($server, settings => {4 => 10});
    $client->send('WINDOW_UPDATE', 0, 0, pack 'N', 1 << 30);

    # It is killed before the client is behind, and when it is.
    $client->request(1, '/killed?0');
    $client->request(3, '/killed?2');
    ok $server->wait_for_log(qr/(?:worker died while it served a request.*){2}/s), 'both are killed';
    for my $stream (1, 3) {
        is length $client->response($stream, 0.2)->{body}, 10, "stream $stream has what its window takes";
        $client->send('WINDOW_UPDATE', 0, $stream, pack 'N', 1 << 30);
        my $response = $client->response($stream);
        is length $response->{body}, 400_000, 'and the rest when it is opened';
        is $response->{reset}, 2, 'and hears then that there is no more';
    }
};

subtest 'a stream that is not read for long is reset, and its connection stays' => sub {
    my $server = Howdah::Test::Server->start(
        file    => 't/apps/streams.psgi',
        options => ['--workers', 1, '--write-timeout', '1s']
    );
    my $client = Howdah::Test::Frames->new($server, settings => {4 => 10});
    $client->request(1, '/big');
    is $client->response(1)->{reset}, 8, 'CANCEL';
    $client->request(3, '/204');
    is $client->response(3)->{status}, 204, 'another stream is served';
};

# As httpx did, whose connections leave that to the kernel (RFC 9293 3.7.4).
subtest 'a client that holds a frame back until the one before is acknowledged does not wait for that' => sub {
    my $client = Howdah::Test::Frames->new($server);
    setsockopt $client->socket, IPPROTO_TCP, TCP_NODELAY, 0;
    my $stream = -1;
    for (
        ['its body', sub { $client->request($_[0], '/none', method => 'POST', open => 1) }, 'body'],
        ['a wider window', sub { $client->send(WINDOW_UPDATE => 0, 0, pack 'N', 1) }],
        )
    {
        my ($name, $first, $body) = @$_;
        my $quickest = 1;
        for my $round (1 .. 12) {
            my $start = time;
            $first->($stream += 2);
            $body ? $client->send(DATA => LAST, $stream, $body) : $client->request($stream, '/none');
            $client->response($stream);
            $quickest = time - $start if $round > 2 && time - $start < $quickest;
        }
        cmp_ok $quickest, '<', 0.03, $name;
    }
};

done_testing;
