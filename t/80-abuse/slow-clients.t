# Clients that drip-feed their requests, and clients that do not read their responses, cost no worker: others are
# served as if they were not there.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Load;
use Howdah::Test::Server;
use Test::More;
use Time::HiRes qw(sleep time);

my $server = Howdah::Test::Server->start(
    options => ['--workers', 2, '--response-buffer', '4m'],
    app     => <<'PSGI',
    my $load = do './t/apps/load.psgi' or die "t/apps/load.psgi: $@$!";
    sub { $_[0]{PATH_INFO} eq '/big' ? [200, [], ['x' x 3_000_000]] : $load->(@_) };
PSGI
);

my $head     = "POST /1-1 HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n";
my @dripping = map { Howdah::Test::Client->new($server) } 1 .. 200;
my @deaf     = map { Howdah::Test::Client->new($server) } 1 .. 20;
$_->write("GET /big HTTP/1.1\r\nHost: x\r\n\r\n") for @deaf;

# A byte at a time to each: some are in their head, some in their body.
my $load    = Howdah::Test::Load->start($server, connections => 8, requests => 2000);
my $started = time;
for my $number (0 .. length($head) + 99) {
    my $byte = $number < length $head ? substr $head, $number, 1 : 'b';
    for my $index (0 .. $#dripping) {
        $dripping[$index]->write($byte) if $index % 3 || $number < 20 + $index;
    }
    sleep 0.01;
}
my $result = $load->finish;
is_deeply $result->{problems}, [], 'nobody else is disturbed';
is_deeply $result->{status}, {200 => 2000};
note sprintf '2000 requests in %.1f s beside 200 dripping and 20 deaf clients', time - $started;

subtest 'and those who finish are served, too' => sub {
    my @finished = map { $dripping[$_] } grep { $_ % 3 } 0 .. $#dripping;
    is_deeply [grep { $_->response->{body} ne '1-1 100' } @finished], [];
    is_deeply [grep { length $_->response->{body} != 3_000_000 } @deaf], [], 'large responses are whole';
};

done_testing;
