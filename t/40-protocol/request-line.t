# --max-request-line: how long a request line may be, and that a long one reaches the application whole.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Server;
use Test::More;

my $app =
    'sub { my $env = shift; [200, [], [join " ", map { length } @$env{qw(REQUEST_URI PATH_INFO QUERY_STRING)}]] }';

# A line of so many bytes, half of which are a query, and what follows it.
sub request {
    my ($length, $more) = @_;
    my $target = $length - length 'GET  HTTP/1.1';
    my $path   = '/' . 'p' x (int($target / 2) - 1);
    my $query  = '?' . 'q' x ($target - length($path) - 1);
    return ("GET $path$query HTTP/1.1\r\nHost: x\r\n$more\r\n", join ' ', $target, length $path, length($query) - 1);
}

my $body = 'b' x 60_000;

# The option, the longest line, what else the largest request has.
for my $case (
    [[], 8192, ''],
    [['--max-request-line', 100], 100, ''],
    [['--max-request-line', '32k'], 32_768, 'A: ' . 'x' x 30_000 . "\r\n"],
    [['--max-request-line', '64k'], 65_000, ''],
    )
{
    my ($options, $longest, $more) = @$case;
    my $server = Howdah::Test::Server->start(app => $app, options => ['--workers', 1, @$options]);
    my ($bytes, $lengths) = request($longest, "Content-Length: 60000\r\n$more");
    my $response = Howdah::Test::Client->ask($server, $bytes . $body);
    is "$response->{status} $response->{body}", "200 $lengths", "@$options: a line of $longest bytes, and a body";
    my $limit = $longest == 65_000 ? 65_536 : $longest;
    ($bytes) = request($limit + 1, '');
    is(Howdah::Test::Client->ask($server, $bytes)->{status}, 414, '... and one byte more than the limit is 414');
}

done_testing;
