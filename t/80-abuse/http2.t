# Clients of HTTP/2 that only make work are told so and cut off, and others are served meanwhile. Those that are only slow, or
# in a hurry, are not.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Frames qw(LAST ACK WHOLE);
use Howdah::Test::Server;
use List::Util qw(sum);
use Test::More;
use Time::HiRes qw(sleep time);

my $server = Howdah::Test::Server->start(file => 't/apps/streams.psgi', options => ['--workers', 2]);
my $frame  = \&Howdah::Test::Frames::frame;
my $head   = \&Howdah::Test::Frames::head;

use constant {PROTOCOL_ERROR => 1, FLOW_CONTROL_ERROR => 3, CALM => 11};

# How a connection ends on which that is sent over and over.
sub end_of {
    my ($make, $most) = @_;
    my $client = Howdah::Test::Frames->new($server);
    $client->{deaf} = 1;
    my $number = 0;
    while ($number < $most && !$client->{closed}) {
        $client->write(join '', map { $make->($number++) } 1 .. 200) or last;
        1 while $client->next_frame(0.0001);
    }
    $client->is_closed(5);
    return ($client->{closed} ? 'closed' : 'open', ($client->goaways)[-1] // 'no word');
}

sub stream_of { return 2 * shift() + 1 }

for (
    [
        'streams that are broken off at once (rapid reset)',
        sub {
            my $id = stream_of(shift);
            $frame->('HEADERS', WHOLE | LAST, $id, $head->('/pid')) . $frame->('RST_STREAM', 0, $id, pack 'N', 8);
        }
    ],
    [
        'uploads that are broken off, a hundred later ones behind each',
        sub {
            my $number = shift;
            my $begin  = $frame->('HEADERS', WHOLE, stream_of($number), $head->('/length', method => 'POST'));
            return $begin . ($number < 100 ? '' : $frame->('RST_STREAM', 0, stream_of($number - 100), pack 'N', 8));
        }
    ],
    [
        'streams that we have to reset',
        sub {
            $frame->('HEADERS', WHOLE | LAST, stream_of(shift), $head->('/pid', fields => [['connection', 'close']]));
        }
    ],
    [
        'CONTINUATION without end',
        sub { shift() ? $frame->('CONTINUATION', 0, 1, '') : $frame->('HEADERS', 0, 1, $head->('/pid')) }
    ],
    ['PING', sub { $frame->('PING', 0, 0, 'x' x 8) }],
    ['answers to a PING that was never sent', sub { $frame->('PING', ACK, 0, 'x' x 8) }],
    ['SETTINGS', sub { $frame->('SETTINGS', 0, 0, '') }],
    ['SETTINGS that change', sub { $frame->('SETTINGS', 0, 0, pack 'nN', 4, 1000 + shift) }],
    ['PRIORITY', sub { $frame->('PRIORITY', 0, 1, pack 'NC', 0, 1) }],
    ['PRIORITY_UPDATE', sub { $frame->('PRIORITY_UPDATE', 0, 0, pack 'NA*', 1 + 2 * (shift() % 100), 'u=1') }],
    ['frames of a type that nobody knows', sub { $frame->('PING', 0, 0, '') =~ s/\A(...)./$1\xf0/sr }],
    ['windows that open and open', sub { $frame->('WINDOW_UPDATE', 0, 0, pack 'N', 1) }],
    [
        'a body in pieces of nothing',
        sub {
            shift() ? $frame->('DATA', 0, 1, '') : $frame->('HEADERS', WHOLE, 1, $head->('/length', method => 'POST'));
        }
    ],
    [
        'a body in pieces of a byte',
        sub {
            shift() ? $frame->('DATA', 0, 1, 'x') : $frame->('HEADERS', WHOLE, 1, $head->('/length', method => 'POST'));
        }
    ],
    )
{
    my ($what, $make) = @$_;
    my $start = time;
    my ($end, $word) = end_of($make, 100_000);
    is $end, 'closed', $what;
    is $word, CALM, 'it is told why';
    my $other = Howdah::Test::Frames->new($server);
    $other->request(1, '/pid');
    is $other->response(1)->{status}, 200, 'others are served';
}

subtest 'a head in pieces, a window that overflows, and more streams than may be' => sub {
    my $client = Howdah::Test::Frames->new($server);
    my $bytes  = $head->('/pid', fields => [['x-a', 'y' x 5000]]);
    $client->send('HEADERS', LAST, 1, substr $bytes, 0, 100);
    $client->send('CONTINUATION', WHOLE, 1, substr $bytes, 100);
    is $client->response(1)->{status}, 200, 'is a head';
    $client->send('WINDOW_UPDATE', 0, 0, pack 'N', 0x7fff_ffff) for 1, 2;
    ok $client->is_closed(10), 'no window is as wide';
    is + ($client->goaways)[-1], FLOW_CONTROL_ERROR;

    $client = Howdah::Test::Frames->new($server);
    $client->request(stream_of($_), '/length', method => 'POST', open => 1) for 0 .. 139;
    is $client->response(stream_of(139))->{reset}, 7, 'REFUSED_STREAM: to be asked for again';
    $client->send('DATA', LAST, 1, 'x');
    is $client->response(1)->{body}, 1, 'the others are served';
};

subtest 'a client that sends ahead what its windows are open for is no enemy' => sub {
    my $client = Howdah::Test::Frames->new($server);
    my $number = 0;
    for my $round (1 .. 5) {

        # A window is opened anew when half of it is used up.
        $client->next_frame(0.05) while $client->window(0) < 520_000 && !$client->{closed};
        my @uploads = map { stream_of($number++) } 1 .. 4;
        my $get     = stream_of($number++);
        my ($burst, %sent) = '';
        for my $stream (@uploads) {
            $sent{$stream} = $client->window($stream);
            $client->{windows}{$_} -= $sent{$stream} for 0, $stream;
            $burst .= $frame->('HEADERS', WHOLE, $stream, $head->('/length', method => 'POST'));
            $burst .= join '', map { $frame->('DATA', 0, $stream, $_) } unpack '(a16000)*', 'x' x $sent{$stream};
        }
        cmp_ok sum(values %sent), '>', 520_000, "round $round, at once";
        $client->write($burst . $frame->('HEADERS', WHOLE | LAST, $get, $head->('/204')));
        is $client->response($get)->{status}, 204, 'what is asked for behind it is answered';
        $client->send('DATA', LAST, $_, '') for @uploads;
        is_deeply [map { $client->response($_)->{body} } @uploads], [@sent{@uploads}], 'and all of it has come';
    }
    is_deeply [$client->goaways], [], 'it was not told to leave';
};

subtest 'nor one whose bodies nobody wants' => sub {
    my $server = Howdah::Test::Server->start(file => 't/apps/streams.psgi', options => ['--max-body-len', 10_240]);
    my $client = Howdah::Test::Frames->new($server);
    for my $number (0 .. 29) {
        my $stream = stream_of($number);
        $client->request($stream, '/length', method => 'POST', open => 1);
        for (1 .. 15) {
            $client->next_frame(0.02) while $client->window($stream) < 16_000 && !$client->{closed};
            $client->send('DATA', 0, $stream, 'x' x 16_000);
        }
        is $client->response($stream)->{status}, 413, "body $number is too large" or last;
    }
    is_deeply [$client->goaways], [], 'it was not told to leave';
};

subtest 'nor one that says a body in small pieces, however narrow its windows are' => sub {
    my $server = Howdah::Test::Server->start(file => 't/apps/streams.psgi', options => ['--http2-window', '64k']);
    my $client = Howdah::Test::Frames->new($server);
    my $begin  = $frame->('HEADERS', WHOLE, 1, $head->('/length', method => 'POST'));
    $client->write($begin . $frame->('DATA', 0, 1, 'x') x 900 . $frame->('DATA', LAST, 1, ''));
    is $client->response(1)->{body}, 900, 'all of them have come';
    is_deeply [$client->goaways], [], 'it was not told to leave';
};

subtest 'a client that breaks off a few of its requests is no enemy' => sub {
    my $client = Howdah::Test::Frames->new($server);
    for my $number (0 .. 199) {
        $client->request(stream_of($number), '/204');
        if ($number % 3) { $client->response(stream_of($number)) }
        else { $client->send('RST_STREAM', 0, stream_of($number), pack 'N', 8) }
    }
    $client->request(999, '/204');
    is $client->response(999)->{status}, 204, 'it is served on';
};

subtest 'a client that reads nothing does not keep its connection for ever' => sub {
    my $server = Howdah::Test::Server->start(
        file    => 't/apps/streams.psgi',
        options => ['--workers', 2, '--write-timeout', '1s']
    );
    my $client = Howdah::Test::Frames->new($server, settings => {4 => 0x7fff_ffff});
    $client->send('WINDOW_UPDATE', 0, 0, pack 'N', 0x7000_0000);
    $client->request(stream_of($_), '/big') for 0 .. 20;
    sleep 4;
    my $other = Howdah::Test::Frames->new($server);
    $other->request(1, '/pid');
    is $other->response(1)->{status}, 200, 'workers are free';
    ok $client->is_closed(20), 'it is cut off';
};

is $server->stop, 0, 'the server stops in order';
unlike $server->log, qr/WARN|ERROR|panicked/, 'and has nothing to tell';

done_testing;
