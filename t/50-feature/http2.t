# HTTP/2, over TLS and without it: what applications and logs know of it, how requests are judged, and --http2.
use strict;
use warnings;
use lib 't/lib';

use File::Temp ();
use Howdah::Test::Client;
use Howdah::Test::Command qw(run_command);
use Howdah::Test::File qw(read_file);
use Howdah::Test::Frames;
use Howdah::Test::Scripts;
use Howdah::Test::Server;
use Howdah::Test::Tls;
use JSON::PP qw(decode_json);
use Test::More;

plan skip_all => 'needs curl with HTTP/2' if (run_command('curl', '--version'))[1] !~ /HTTP2/;
plan skip_all => 'needs openssl' if !Howdah::Test::Tls->is_installed;

my $tls = Howdah::Test::Tls->new;
my $log = File::Temp->new;
my @listen =
    (listen => undef, options => ['-l', 'tls:127.0.0.1:0', '-l', '127.0.0.1:0', '--workers', 2, $tls->options]);

sub start {
    my (@options) = @_;
    return Howdah::Test::Server->start(
        file    => 't/apps/echo.psgi', listen => undef,
        options => [@{$listen[3]}, @options]
    );
}

# What curl says to a request: status, version, head and body.
sub curl {
    my ($url, @how) = @_;
    my ($status, $out) =
        run_command('curl', '-sk', '-i', '--max-time', 20, '-w', "\n%{http_code} %{http_version}", @how, $url);
    my ($head, $rest) = split /\r\n\r\n/, $out, 2;
    my ($body, $code, $version) = ($rest // '') =~ /\A(.*)\n(\d+) (\S+)\z/s;
    return {exit => $status, head => $head, body => $body, code => $code, version => $version};
}

my $server =
    start('--access-log', "$log", '--access-log-format', '%H "%r" %s %b %{X-A}i %{Content-Type}o', '--hsts=1h');
my ($over, $plain) = $server->urls;
my $h2 = '--http2-prior-knowledge';

subtest 'the env' => sub {
    for ([$over, 'https', '--http2'], [$plain, 'http', $h2]) {
        my ($url, $scheme, $how) = @$_;
        my $got = curl("$url/a%20b?c=d", $how, '-H', 'X-A: 1', '-H', 'X-A: 2', '-b', 'e=f; g=h');
        is "$got->{code} $got->{version}", '200 2', $scheme;
        my $env         = decode_json($got->{body})->{env};
        my ($authority) = $url =~ m{//(.*?)/?$};
        my %wanted      = (
            SERVER_PROTOCOL => 'HTTP/2', 'psgi.url_scheme' => $scheme, HTTP_HOST => $authority, PATH_INFO => '/a b',
            REQUEST_URI     => '/a%20b?c=d', QUERY_STRING  => 'c=d', HTTP_X_A    => '1, 2', HTTP_COOKIE   => 'e=f; g=h',
            REMOTE_ADDR     => '127.0.0.1', REQUEST_METHOD => 'GET',
        );
        is $env->{$_}, $wanted{$_}, $_ for sort keys %wanted;
        like $env->{REMOTE_PORT}, qr/^\d+$/, 'REMOTE_PORT';
        is $got->{head} =~ /^strict-transport-security: max-age=3600/m ? 'https' : 'http', $scheme,
            'HSTS over TLS alone';
    }
};

subtest 'CGI scripts see a version of two numbers, as RFC 3875 4.1.16 has it' => sub {
    my $scripts =
        Howdah::Test::Scripts->new('a.cgi' => "#!/usr/bin/perl\nprint qq{Status: 200\\n\\n\$ENV{SERVER_PROTOCOL}};\n");
    for my $mode (qw(exec fork keep)) {
        my $server = $scripts->serve($mode, ['workers=1']);
        is curl($server->url . '/c/a.cgi', $h2)->{body}, 'HTTP/2.0', $mode;
        is $scripts->get($server, 'a.cgi')->{body}, 'HTTP/1.1', '... and 1.1';
    }
};

subtest 'bodies' => sub {
    for my $length (0, 1, 100_000, 3_000_000) {
        my $file = File::Temp->new;
        print {$file} 'x' x $length;
        close $file;
        for (['its length is told'], ['it is not', '-H', 'Content-Length:']) {
            my ($what, @how) = @$_;
            my $got    = curl($plain, $h2, '--data-binary', "\@$file", @how);
            my $answer = decode_json($got->{body});
            is $answer->{length}, $length, "$length bytes, $what";
            is $answer->{env}{CONTENT_LENGTH}, $length, 'CONTENT_LENGTH';
        }
    }
    my $got = curl($plain, $h2, '-X', 'PUT', '-d', 'x', '-H', 'Expect: 100-continue');
    like $got->{head}, qr{^HTTP/2 100 }, 'a client that waits is told to go on';
};

subtest 'what is refused' => sub {
    my $small = start('--max-body-size', 1000, '--max-request-line', 100);
    my ($url) = ($small->urls)[1];
    for (
        ['a target that is too long', 414, '/' . 'x' x 200],
        ['a path that cannot be', 400, '/%zz'],
        ['a host that cannot be', 400, '/', '-H', 'Host: a@b'],
        ['another expectation', 417, '/', '-H', 'Expect: more'],
        ['a head that is too large', 431, '/', map { ('-H', "X-$_: x") } 1 .. 130],
        )
    {
        my ($what, $code, $path, @how) = @$_;
        is curl("$url$path", $h2, @how)->{code}, $code, $what;
    }

# Not by curl: 7.88 forgets a response that is there, with its RST_STREAM of NO_ERROR, before the first of the body has left.
    my ($port) = $url =~ /:(\d+)/;
    for (
        ['a body that is too long', 413, 2000, ['content-length', 2000]],
        ['one whose length is not told', 413, 1001],
        ['the longest that there may be', 200, 1000],
        )
    {
        my ($what, $status, $length, @fields) = @$_;
        my $client = Howdah::Test::Frames->new($port);
        $client->request(1, '/', method => 'POST', open => 1, fields => \@fields);
        $client->send(DATA => Howdah::Test::Frames::LAST, 1, 'x' x $length);
        is $client->response(1)->{status}, $status, $what;
    }
    for (['/' . 'x' x 200, 414], ['/%zz', 400], ['/', 417, ['expect', 'more']]) {
        my ($path, $status, @fields) = @$_;
        my $client = Howdah::Test::Frames->new($port);
        $client->request(1, $path, method => 'HEAD', fields => \@fields);
        my $response = $client->response(1);
        is_deeply [@$response{qw(status body end)}], [$status, '', 1], "a HEAD that is refused by $status has no body";
    }
    is curl("$url/", $h2)->{code}, 200, 'others are served';
};

subtest 'a large head' => sub {
    my $port      = ($plain =~ /:(\d+)/)[0];
    my $status_of = sub {
        my (@fields) = @_;
        my $client   = Howdah::Test::Frames->new($port);
        my @parts    = unpack '(a16384)*', Howdah::Test::Frames::head('/large-head', fields => \@fields);
        my $first    = 1;
        while (defined(my $part = shift @parts)) {
            my $flags = ($first ? Howdah::Test::Frames::LAST : 0) | (@parts ? 0 : Howdah::Test::Frames::WHOLE);
            $client->send($first ? 'HEADERS' : 'CONTINUATION', $flags, 1, $part);
            $first = 0;
        }

        # What the library refuses by itself has an end and no body.
        my $response = $client->response(1);
        return "$response->{status} " . length $response->{body};
    };
    my @most = map { ["x-$_", 'y' x 515] } 100 .. 219;
    like $status_of->(@most), qr/^200 /, 'that HTTP/1 would take is taken, however many fields it has';
    is $status_of->(@most, ['z', 'z' x 5_000]), '431 36', 'one that is too large is refused';
    ok $server->wait_until(sub { read_file("$log") =~ m{"GET /large-head HTTP/2" 431 } }), 'and the access log has it';
};

subtest 'a host that is told by Host alone' => sub {
    my ($port) = $plain =~ /:(\d+)/;
    my $client = Howdah::Test::Frames->new($port);
    $client->request(1, '/a', host => 'by.host');
    my $answer = decode_json($client->response(1)->{body} || '{}');
    is $answer->{env}{HTTP_HOST}, 'by.host', 'as a proxy may that has it from HTTP/1';
};

subtest 'the access log' => sub {
    ok $server->wait_until(sub { -s "$log" }), 'lines come';
    open my $in, '<', "$log" or die $!;
    like scalar(<$in>), qr{^HTTP/2 "GET /a%20b\?c=d HTTP/2" 200 \d+ 1, 2 application/json$};
};

subtest 'a large response, all of it and in its order, to clients quick and slow' => sub {
    my $large = Howdah::Test::Server->start(file => 't/apps/streams.psgi', @listen);
    for my $url ($large->urls) {
        for (['quick'], ['slow', '--limit-rate', '3M']) {
            my ($what, @how) = @$_;
            my $got = curl("$url/big", $url =~ /^https/ ? '--http2' : $h2, @how);
            ok $got->{version} eq '2' && $got->{body} eq 'x' x 3_000_000, "$url, $what";
        }
    }
};

subtest 'counters' => sub {
    my $counted = start('--metrics-path', '/metrics');
    my ($secure, $open) = $counted->urls;
    curl($open, $h2) for 1 .. 2;
    curl($secure, '--http2') for 1 .. 2;
    curl($open);
    my $page = curl("$open/metrics")->{body};
    like $page, qr/^howdah_http2_${_}_total 4$/m, $_ for qw(connections streams);
};

subtest '--http2 off' => sub {
    my $old = start('--http2', 'off');
    my ($secure, $open) = $old->urls;
    is curl($secure, '--http2')->{version}, '1.1', 'ALPN offers HTTP/1.1 alone';
    my $client = Howdah::Test::Client->new($open =~ /:(\d+)/);
    $client->write("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    is $client->response->{status}, 505, 'the preface is refused';
};

done_testing;
