# Request bodies: by length, in chunks, after 100 Continue; inline and spooled (RFC 9112 section 6 and 7, RFC 9110 10.1.1).
use strict;
use warnings;
use lib 't/lib';

use Digest::MD5 qw(md5_hex);
use Howdah::Test::Client;
use Howdah::Test::Server;
use JSON::PP qw(decode_json);
use Test::More;
use Time::HiRes qw(time);

my $server = Howdah::Test::Server->start(
    options => ['--workers', 2, '--max-body-size', '3m'],
    app     => <<'PSGI',
  use Digest::MD5 qw(md5_hex); use JSON::PP;
  sub {
    my $env = shift;
    my $body = '';
    1 while $env->{'psgi.input'}->read($body, 10_000, length $body);
    my %seen = map { $_ => $env->{$_} } grep { /^(?:CONTENT|HTTP|REQUEST)_/ } keys %$env;
    [200, [], [encode_json({%seen, md5 => md5_hex($body), length => length $body})]];
  };
PSGI
);

sub head { return join "\r\n", 'POST / HTTP/1.1', 'Host: x', @_, '', '' }

# A body in chunks of the given size.
sub chunked {
    my ($body, $size, $extension) = @_;
    my $text = '';
    while (length(my $piece = substr $body, 0, $size, '')) {
        $text .= sprintf "%x%s\r\n%s\r\n", length $piece, $extension // '', $piece;
    }
    return "${text}0\r\n";
}

# Around each bound: nothing, the inline area of 64 KiB, the buffers, the spool file.
for my $length (0, 1, 100, 4095, 4096, 65535, 65536, 65537, 131072, 1_000_000, 3 * 1024 * 1024) {
    my $body   = join '', map { chr(($_ * 7 + ($_ >> 8)) % 251) } 0 .. $length - 1;
    my $client = Howdah::Test::Client->new($server);
    $client->write(head("Content-Length: $length") . $body);
    $client->write(head('Transfer-Encoding: chunked') . chunked($body, 30_011) . "\r\n");
    for my $how ('by length', 'in chunks') {
        my $answer = eval { decode_json($client->response->{body}) } // {};
        is "@$answer{qw(length md5)}", "$length " . md5_hex($body), "$length bytes $how (RFC 9112 6.3)";
        is $answer->{CONTENT_LENGTH}, $length, '  and CONTENT_LENGTH tells' if $length || $how eq 'by length';
    }
}

my @chunks = (
    ['7.1: chunk of one byte each', chunked('camel', 1) . "\r\n"],
    ['7.1.1: extensions are passed over', chunked('camel', 2, ';name=value;other="quo;ted"') . "\r\n"],
    ['7.1: leading zeros, hex in either case', "0005\r\ncamel\r\n000\r\n\r\n"],
    ['7.1.2: trailers are taken', chunked('camel', 9) . "X-Trailer: t\r\nContent-Length: 99\r\n\r\n"],
);
for my $case (@chunks) {
    my ($name, $text) = @$case;
    my $client = Howdah::Test::Client->new($server);
    $client->write(head('Transfer-Encoding: Chunked') . $text . head('Content-Length: 2') . 'ok');
    my $answer = eval { decode_json($client->response->{body}) } // {};
    is $answer->{md5}, md5_hex('camel'), $name;
    ok !exists $answer->{HTTP_X_TRAILER}, '  and trailers do not become headers (RFC 9110 6.5.1)';
    ok !exists $answer->{HTTP_TRANSFER_ENCODING}, '  and the coding is hidden from the application';
    is eval { decode_json($client->response->{body}) }->{length}, 2, '  and the next request is in step';
}

subtest '10.1.1: 100 (Continue) when the body is wanted' => sub {
    for my $expect ('100-continue', '100-Continue') {
        my $client = Howdah::Test::Client->new($server);
        $client->write(head('Content-Length: 5', "Expect: $expect"));
        my $interim = $client->response;
        is $interim->{head}, 'HTTP/1.1 100 Continue', 'bare interim response';
        $client->write('camel');
        my $final = $client->response;
        is $final->{status}, 200;
        is eval { decode_json($final->{body}) }->{length}, 5;
    }
};

subtest '10.1.1: no 100 when the head is refused' => sub {
    for my $length (5, 100_000) {
        my $client = Howdah::Test::Client->new($server);
        $client->write("POST /%zz HTTP/1.1\r\nHost: x\r\nContent-Length: $length\r\nExpect: 100-continue\r\n\r\n");
        is $client->response->{status}, 400, "a path that cannot be, and $length bytes to come";
    }
};

subtest '10.1.1: no 100 when the body is there, or there is none, or the client speaks 1.0' => sub {
    my $client = Howdah::Test::Client->new($server);
    $client->write(head('Content-Length: 5', 'Expect: 100-continue') . 'camel');
    my $first = $client->response;
    $first = $client->response if $first->{status} == 100;    # it may also be sent
    is $first->{status}, 200;
    $client->write(head('Content-Length: 0', 'Expect: 100-continue'));
    is $client->response->{status}, 200, 'empty body';
    my $old   = "POST / HTTP/1.0\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n";
    my $other = Howdah::Test::Client->new($server);
    $other->write($old);
    ok $other->is_quiet(0.3), '1.0 gets none';
    $other->write('camel');
    is $other->response->{status}, 200;
};

subtest '10.1.1: 417 for any other expectation' => sub {
    my $client = Howdah::Test::Client->new($server);
    $client->write(head('Content-Length: 5', 'Expect: 200-ok') . 'camel');
    is $client->response->{status}, 417;
};

subtest '15.5.14: 413 for a body over the limit, and the answer is not lost' => sub {
    my $large  = 3 * 1024 * 1024 + 1;
    my $answer = Howdah::Test::Client->ask($server, head("Content-Length: $large", 'Expect: 100-continue'));
    is $answer->{status}, 413, 'at once, instead of 100';
    for my $case (
        ['by length', head("Content-Length: $large"), 'x' x $large],
        ['in chunks', head('Transfer-Encoding: chunked'), chunked('x' x $large, 60_000)],
        ['however long it is', head('Content-Length: 40000000'), 'x' x 40_000_000],
        )
    {
        my ($name, $head, $body) = @$case;
        my $client = Howdah::Test::Client->new($server);
        $client->write($head);
        ok $client->write($body), 'a client may write all of it before it looks for the answer';
        is $client->response->{status}, 413, $name;
        ok $client->is_closed, 'and closed';
    }
};

# Clients as HTTP::Tiny write a body behind its head, as LWP a chunk behind others, and hold it back until those are acknowledged
# (RFC 9293 3.7.4). What the same takes in one write says how fast the machine is.
for my $case (
    ['a body', head('Content-Length: 5'), 'camel'],
    ['chunks', head('Transfer-Encoding: chunked'), chunked('camel', 5) . "\r\n"],
    ['the rest of a body', head('Content-Length: 5') . 'ca', 'mel'],
    ['the last chunk', head('Transfer-Encoding: chunked') . "5\r\ncamel\r\n", "0\r\n\r\n"],
    ['the rest of a head', "GET / HTTP/1.1\r\n", "Host: x\r\n\r\n"],
    )
{
    my ($name, @pieces) = @$case;
    my $client   = Howdah::Test::Client->new($server);
    my %quickest = (whole => 60, pieces => 60);
    for my $round (1 .. 12) {
        for my $way ([whole => join '', @pieces], [pieces => @pieces]) {
            my ($how, @writes) = @$way;
            my $start = time;
            $client->write($_) for @writes;
            $client->response;
            my $took = time - $start;
            $quickest{$how} = $took if $round > 2 && $took < $quickest{$how};
        }
    }
    cmp_ok $quickest{pieces} - $quickest{whole}, '<', 0.03,
        "$name may come behind the rest, where a kernel that delays an acknowledgement waits for 40 ms";
}

done_testing;
