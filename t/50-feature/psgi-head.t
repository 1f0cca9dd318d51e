# What becomes of the header of a PSGI response that is odd, and yet can be sent. What cannot be is in application-faults.t.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Server;
use Test::More;

# What holds; the elements of the header; all lines of the response but for those of every one.
my @CASES = (
    ['Content-Length without a value is counted', '"Content-Length" => undef', 'Content-Length: 6'],
    ['... also an empty one', '"Content-Length" => ""', 'Content-Length: 6'],
    ['... also one of blanks', '"Content-Length" => " \t"', 'Content-Length: 6'],
    ['... and leaves the other one alone', '"Content-Length" => "", "Content-Length" => 6', 'Content-Length: 6'],
    ['blanks around a Content-Length are none of it', '"Content-Length" => "\t 6 "', 'Content-Length: 6'],
    ['a number', '"Content-Length" => 6.0', 'Content-Length: 6'],
    ['the same twice', '"Content-Length" => 6, "Content-Length" => "06"', 'Content-Length: 6'],
    [
        'text with the UTF-8 flag', '"X-A" => do { my $x = "caf\xe9"; utf8::upgrade($x); $x }',
        "X-A: caf\xe9|Content-Length: 6"
    ],
    ['as long as may be', '"X" => "x" x 65_531', 'X: ' . 'x' x 65_531 . '|Content-Length: 6'],
    ['no value', '"X-A" => undef', 'X-A: |Content-Length: 6'],
    ['the same field again', '"X-A" => 1, "X-A" => 2', 'X-A: 1|X-A: 2|Content-Length: 6'],
    [
        'a field that Connection lists is for no client', '"X-A" => 1, Connection => "x-a", "X-B" => 2',
        'X-B: 2|Content-Length: 6'
    ],
    ['... wherever it stands', 'Connection => "y , X-A", "X-A" => 1, "X-A" => 2', 'Content-Length: 6'],
    [
        '... in several', 'Connection => "X-A", connection => "X-C", "X-C" => 1, "X-AB" => 2',
        'X-AB: 2|Content-Length: 6'
    ],
    [
        '... but what is counted or the front\'s stays', 'Connection => "Content-Length, Server", Server => "me"',
        'Server: me|Content-Length: 6'
    ],
    ['... and Connection without a value lists nothing', 'Connection => undef, "X-A" => 1', 'X-A: 1|Content-Length: 6'],
);

my $server = Howdah::Test::Server->start(
    options => ['--workers', 1, '--no-server-header', '--no-request-id'],
    app     => 'my @heads = (' . join(', ', map { "[$_->[1]]" } @CASES) . ');
        sub { [200, $heads[substr $_[0]{PATH_INFO}, 1], ["hello\n"]] }'
);

my $phrases =
    Howdah::Test::Server->start(options => ['--workers', 1], app => 'sub { [substr($_[0]{PATH_INFO}, 1), [], []] }');

for my $number (0 .. $#CASES) {
    my ($what, undef, $lines) = @{$CASES[$number]};
    my $response = Howdah::Test::Client->ask($server, "GET /$number HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    my (undef, @lines) = grep { !/^(?:Date|Connection):/ } split /\r\n/, $response->{head};
    is join('|', @lines), $lines, $what;
    is $response->{body} . ($response->{error} // ''), "hello\n", '... and the body is whole';
}

subtest 'a status with a phrase behind it, as other servers print it, is that status' => sub {
    for my $path ('/200 OK', '/404 Not Found', '/299 ', '/500 200') {
        my ($status) = $path =~ m{(\d+)};
        my $asked = $path =~ s/ /%20/gr;
        my $response =
            Howdah::Test::Client->ask($phrases, "GET $asked HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        is $response->{status}, $status, $path;
    }
    unlike $phrases->log, qr/ERROR/, 'nothing to complain of';
};

subtest 'a value that empties the list of headers when it is asked for its text' => sub {
    my $emptied = Howdah::Test::Server->start(
        options => ['--workers', 1],
        app     => q{
            package Emptying;
            use overload q{""} => sub { my $list = shift->[0]; @$list = (); push our @fill, map { "Y-$_" . "y" x 44 } 1 .. 50; "value" };
            sub { my @list = ("X-" . "b" x 45); push @list, bless [\@list]; [200, \@list, ["hello\n"]] }
        }
    );
    for (1 .. 3) {
        my $response = Howdah::Test::Client->ask($emptied, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        like $response->{head}, qr/\r\nX-b{45}: value\r\n/, 'it has the name that stood before it';
    }
};

done_testing;
