# The access log against the log of a real Apache httpd: the same raw requests, the same format, field by field.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Apache;
use Howdah::Test::Client;
use Howdah::Test::Server;
use MIME::Base64 qw(encode_base64);
use Test::More;

plan skip_all => 'no Apache httpd (apt-get install apache2-bin)' if !Howdah::Test::Apache->is_installed;

# What both servers know, and what depends on the request alone or on a response that both send.
my @fields = (
    qw(%h %a %{c}a %l %u "%r" %m %U %q %H %s %>s %b %B %I %k %X %V),
    qw(%{Referer}i %{User-agent}i %{X-Twice}i %{None}i %{Content-Type}o %{Content-Length}o %{None}o %{sid}C %{none}C),
    qw(%{CAMEL}e %{NONE}e %{X-Echo}o %{Transfer-Encoding}o %{Connection}o %{X-Trail}^ti %{X-Twice}^ti %{None}^ti),
    qw(%{None}^to %{None}n %200s %!200s %404{User-agent}i %!404{User-agent}i %% %<s),
    qw(%{%Y-%m-%d}t %{begin:%Y-%m-%d}t %{end:%Y-%m-%d}t),
);

# What each measures for itself, or has of its own, but must be of one kind; and what is no more than its own sum.
my %kind = (
    '%A'            => qr/^127\.0\.0\.1$/,
    '%t'            => qr{^\[\d\d/[A-Z][a-z][a-z]/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}\]$},
    '%{sec}t'       => qr/^1\d{9}$/,
    '%{end:msec}t'  => qr/^1\d{12}$/,
    '%{usec}t'      => qr/^1\d{15}$/,
    '%{msec_frac}t' => qr/^\d{3}$/,
    '%{usec_frac}t' => qr/^\d{6}$/,
    '%O'            => qr/^[1-9]\d+$/,
    '%S'            => qr/^[1-9]\d+$/,
    '%D'            => qr/^\d+$/,
    '%T'            => qr/^\d+$/,
    '%{s}T'         => qr/^\d+$/,
    '%{ms}T'        => qr/^\d+$/,
    '%{us}T'        => qr/^\d+$/,
    '%v'            => qr/^[a-z0-9.]+$/,
    '%p'            => qr/^\d+$/,
    '%{canonical}p' => qr/^\d+$/,
    '%{local}p'     => qr/^\d+$/,
    '%{remote}p'    => qr/^\d+$/,
    '%P'            => qr/^\d+$/,
    '%{pid}P'       => qr/^\d+$/,
    '%{tid}P'       => qr/^\d+$/,
    '%{hextid}P'    => qr/^[0-9a-f]+$/,
    '%^FB'          => qr/^(?:-|\d+)$/,
    '%L'            => qr/^(?:-|[\w\@\/+-]+)$/,
    '%f'            => qr/^(?:-|\S+)$/,
    '%R'            => qr/^(?:-|\S+)$/,
    '%{Server}o'    => qr/^(?:-|Howdah|Apache.*)$/,
    '%{Date}o'      => qr/^(?:-|[A-Z][a-z][a-z], .* GMT)$/,
);
push @fields, sort keys %kind;
my $format = join '\t', @fields;

my $host  = "Host: Example.ORG:8080\r\n";
my $agent = "User-Agent: tab\there \xff\xc3\xa9 \"200 5\" \\x\r\n";
my @cases = (
    ['plain', "GET /hello.html HTTP/1.1\r\n$host\r\n"],
    ['query with quotes', "GET /hello.html?a=%22\"b\\ HTTP/1.1\r\n$host\r\n"],
    ['a lone question mark', "GET /hello.html? HTTP/1.1\r\n$host\r\n"],
    ['HEAD', "HEAD /hello.html HTTP/1.1\r\n$host\r\n", head => 1],
    ['hostile fields', "GET /hello.html HTTP/1.1\r\n${host}Referer: \"\\\r\n$agent\r\n"],
    ['a field twice', "GET /hello.html HTTP/1.1\r\n${host}X-Twice: 1\r\nX-Twice: 2\\\r\n\r\n"],
    ['cookies', "GET /hello.html HTTP/1.1\r\n${host}Cookie: a=1; sid = x=y\"z ; b\r\n\r\n"],
    ['no such page', "GET /none%22%5c?x HTTP/1.1\r\n$host$agent\r\n"],

    ['a target in absolute-form', "GET http://example.org:8080/hello.html?a=%22\"b HTTP/1.1\r\n$host\r\n"],
    ['one for another host', "GET HTTP://Other.example/hello.html? HTTP/1.1\r\n$host\r\n"],
    ['... without a path', "GET http://other.example HTTP/1.1\r\n$host\r\n"],

    # Without a Host each says its own name; httpd says that it closes, which HTTP/1.0 does not need.
    ['HTTP/1.0', "GET /hello.html HTTP/1.0\r\n\r\n", skip => {'%V' => 1, '%{Connection}o' => 1}],
    ['the client wants to close', "GET /hello.html HTTP/1.1\r\n${host}Connection: close\r\n\r\n"],

    # httpd reads a byte ahead and counts it.
    ['a form of HTTP/1.1 that is chunked', chunked('GET', "X-Trail: a\"b\\c \xff\tx\r\n")],
    ['trailers, one of them twice', chunked('GET', "x-trail:  padded \r\nX-Twice: 1\r\nX-Twice: 2\r\n")],
    ['a value that is the client\'s', "GET /hello.html HTTP/1.1\r\n${host}Referer: \"\\\t\xc3\xa9\xff\r\n\r\n"],
    ['an empty value', "GET /hello.html HTTP/1.1\r\n${host}Referer:\r\n\r\n"],
    map({ [
            "user $_",
            "GET /secret.html HTTP/1.1\r\n${host}Authorization: Basic " . encode_base64("$_:x", '') . "\r\n\r\n"
        ] } 'ann',
        'a "b" \\c',
        "tab\there",
        "line\nforged",
        "\x1b[31m\x07\x7f",
        "\xff\xc3\xa9",
        ' '),
    ['two on a connection', "GET /hello.html HTTP/1.1\r\n$host\r\n" x 2, count => 2, skip => {'%I' => 1}],
);

my $apache = Howdah::Test::Apache->start(
    format  => $format,
    files   => {'www/secret.html' => 'hello world'},
    modules => [qw(setenvif auth_basic authn_core authn_anon authz_user)],
    lines   => <<'CONF');
LogIOTrackTTFB On
SetEnvIf Referer "^(.+)$" CAMEL=$1
Header set X-Echo "%{CAMEL}e" env=CAMEL
<Location "/secret.html">
AuthType Basic
AuthName judge
AuthBasicProvider anon
Anonymous "*"
Anonymous_MustGiveEmail Off
Anonymous_LogEmail Off
Require valid-user
</Location>
CONF
my $app = <<'PERL';
use MIME::Base64;
sub {
    my $env = shift;
    my ($path, $referer, $basic) = @$env{qw(PATH_INFO HTTP_REFERER HTTP_AUTHORIZATION)};
    return [404, ['Content-Type' => 'text/html'], ['none']] if $path !~ m{^/(?:hello|secret)\.html$};
    ($env->{REMOTE_USER}) = decode_base64($1) =~ /^(.*):/s if defined $basic && $basic =~ /^Basic (.*)/;
    undef $referer if !length($referer // '');
    $env->{CAMEL} = $referer if defined $referer;
    my @head = ('Content-Type' => 'text/html; charset=utf-8', defined $referer ? ('X-Echo' => $referer) : ());
    return [200, [@head, 'Content-Length' => 11], ['hello world']];
}
PERL
my $dir    = $apache->dir;
my $howdah = Howdah::Test::Server->start(
    app     => $app,
    options => ['--access-log', "$dir/howdah.log", '--access-log-format', $format]
);

my $lines = 0;
for my $case (@cases) {
    my ($name, $request, %how) = @$case;
    subtest $name => sub {
        my $from = $lines;
        $lines += $how{count} // 1;
        my @logs = map { [ask($_->[0], $_->[1], $request, $lines, %how)] }[$apache->port, $apache->log],
            [$howdah->port, "$dir/howdah.log"];
        compare($_, $logs[0][$_], $logs[1][$_], $how{skip} // {}) for $from .. $lines - 1;
    };
}
is $howdah->stop, 0;
done_testing;

sub chunked {
    my ($method, $trailers) = @_;
    return
        "$method /hello.html HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n$trailers\r\n";
}

# Sends a request and waits for the log to have so many lines: all of them.
sub ask {
    my ($port, $file, $request, $count, %how) = @_;
    my $client = Howdah::Test::Client->new($port);
    $client->write($request);
    $client->response(head => $how{head}) for 1 .. $how{count} // 1;
    my @lines;
    $howdah->wait_until(sub { @lines = read_lines($file); @lines >= $count }, 10);
    return @lines;
}

sub read_lines {
    open my $in, '<:raw', shift or return;
    return grep { /\n\z/ } <$in>;
}

sub compare {
    my ($number, $theirs, $ours, $skip) = @_;
    my @theirs = split /\t/, $theirs // '', -1;
    my @ours   = split /\t/, $ours // '', -1;
    is @theirs, @fields, "httpd has written line $number" or return;
    for my $at (0 .. $#fields) {
        next if $skip->{$fields[$at]};

        # A page that is not there has the words of each server.
        next if $ours[10] eq '404' && $fields[$at] =~ /^%(?:b|B|\{Content-.*)/;
        my ($name, $kind) = ("$fields[$at] of line $number", $kind{$fields[$at]});
        if (!$kind) { is $ours[$at], $theirs[$at], $name }
        else { like $_, $kind, $name for $ours[$at], $theirs[$at] }
    }
    return;
}
