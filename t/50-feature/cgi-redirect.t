# A script that names another path of the server by Location is not answered to the client: what is at that path answers
# (RFC 3875 6.2.2), in whichever application that is.
use strict;
use warnings;
use lib 't/lib';

use File::Temp qw(tempdir);
use Howdah::Test::Client;
use Howdah::Test::Server;
use Test::More;

my $dir = tempdir(CLEANUP => 1);

sub script {
    my ($name, $text) = @_;
    open my $out, '>', "$dir/$name" or die "$name: $!";
    print {$out} $text;
    close $out or die "$name: $!";
    chmod 0755, "$dir/$name" or die "$name: $!";
    return;
}

script('to.cgi', qq{#!/bin/sh\nprintf 'Location: %s\\n\\n' "\$QUERY_STRING"\n});
script(
    'login.cgi',
    qq{#!/bin/sh\ncat > /dev/null\nprintf 'Location: /app?from=login\\nContent-Type: text/html\\n\\nignored'\n}
);
script('cookie.cgi', qq{#!/bin/sh\nprintf 'Location: /app\\nSet-Cookie: a=b\\n\\n'\n});
script('large.cgi', qq{#!/bin/sh\ncat > /dev/null\nprintf 'Location: /app\\n\\n'\nhead -c 3000000 /dev/zero\n});
script('slow.cgi', qq{#!/bin/sh\nsleep 30\n});
script('env.cgi', <<'END');
#!/bin/sh
printf 'Content-Type: text/plain\n\n'
echo "$REQUEST_METHOD ${CONTENT_LENGTH-none} $QUERY_STRING $REDIRECT_STATUS $REDIRECT_URL $REQUEST_URI"
END

my $app    = 'sub { my $e = shift; [200, [], [join " ", "app", @$e{qw(REQUEST_METHOD PATH_INFO QUERY_STRING)}]] }';
my $log    = "$dir/access";
my $server = Howdah::Test::Server->start(
    app     => $app,
    options => [
        '--workers', 2, '--request-timeout', '2s', '--cgi', "/c=$dir,mode=exec,workers=3",
        '--access-log', $log, '--access-log-format', '%r %>s %B',
    ],
);

sub request {
    my ($line, $body) = @_;
    my $length = defined $body ? 'Content-Length: ' . length($body) . "\r\n" : '';
    return "$line HTTP/1.1\r\nHost: x\r\n$length\r\n" . ($body // '');
}

# What is asked, and the status and body of the response. All go over one connection.
my @cases = (
    ['a path of an application', request('GET /c/to.cgi?/app/x?y=z'), 200, 'app GET /app/x y=z'],
    ['a path of another script', request('GET /c/to.cgi?/c/env.cgi?a'), 200, "GET none a 200 /c/to.cgi /c/env.cgi?a\n"],
    ['two in a row', request('GET /c/to.cgi?/c/to.cgi?/c/env.cgi'), 200, "GET none  200 /c/to.cgi /c/env.cgi\n"],
    ['a POST becomes a GET', request('POST /c/login.cgi', 'user=me'), 200, 'app GET /app from=login'],
    ['a large body', request('POST /c/large.cgi', 'x' x 300_000), 200, 'app GET /app '],
    ['a HEAD stays one', request('HEAD /c/to.cgi?/app'), 200, ''],
    ['nothing is there', request('GET /c/to.cgi?/c/none'), 404, "404 Not Found\n"],
    ['with something for the client', request('GET /c/cookie.cgi'), 302, ''],
    ['a circle', request('GET /c/to.cgi?' . '/c/to.cgi?' x 11 . '/app'), 500, "500 Internal Server Error\n"],
    ['no path', request('GET /c/to.cgi?/a%zz'), 500, "500 Internal Server Error\n"],
);

subtest 'on a kept connection, one after the other' => sub {
    my $client = Howdah::Test::Client->new($server);
    for my $case (@cases) {
        my ($what, $request, $status, $body) = @$case;
        $client->write($request);
        my $response = $client->response(head => scalar $request =~ /^HEAD/);
        is "$response->{status} $response->{body}", "$status $body", $what;
    }
    ok $server->wait_for_log(
        qr{a local redirect to /c/to\.cgi\?/app cannot be followed: it was the 11th in a row; answered 500 to GET /c/to}
        ), 'a circle is told in the log'
        or diag $server->log;
};

subtest 'pipelined' => sub {
    my $client = Howdah::Test::Client->new($server);
    my @some   = grep { $_->[1] !~ /^HEAD/ } @cases;
    $client->write(join '', map { $_->[1] } @some);
    is $client->response->{body}, $_->[3], $_->[0] for @some;
};

subtest 'the request timeout ends it wherever it stands' => sub {
    my $response = Howdah::Test::Client->ask($server, request('GET /c/to.cgi?/c/slow.cgi'));
    is $response->{status}, 504;
    is + Howdah::Test::Client->ask($server, request('GET /c/to.cgi?/app'))->{status}, 200, 'and others go on';
};

subtest 'a client that leaves' => sub {
    Howdah::Test::Client->new($server)->write(request('GET /c/to.cgi?/c/slow.cgi')) for 1 .. 3;
    is + Howdah::Test::Client->ask($server, request('GET /c/to.cgi?/app'))->{status}, 200,
        'keeps no script from others';
};

is $server->stop, 0;
open my $in, '<', $log or die "$log: $!";
my @lines = <$in>;
is $lines[0], "GET /c/to.cgi?/app/x?y=z HTTP/1.1 200 18\n", 'the access log has what the client has asked';
is scalar(grep { m{/c/login\.cgi} } @lines), 2, 'and one line for each request';
is scalar(grep { m{ /app} } @lines), 0;

done_testing;
