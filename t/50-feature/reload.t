# HUP: new code for new requests, the old code for those it has begun, none lost; and when the new code does not load,
# the old one stays.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Load;
use Howdah::Test::Server;
use Test::More;
use Time::HiRes qw(sleep);

my $server = Howdah::Test::Server->launch(listen => undef, command => ['true']);
my $code   = sub { return $server->write_file('live.psgi', <<"PSGI") };
my \$load = do './t/apps/load.psgi' or die;
$_[1]
sub {
    my \$path = \$_[0]{PATH_INFO};
    select undef, undef, undef, 1.5 if \$path eq '/slow';
    return \$path =~ m{^/\\d} ? \$load->(\@_) : [200, [], ['$_[0]']];
};
PSGI

my $file = $code->('first', '');
my $live = Howdah::Test::Server->start(file => $file, options => ['--workers', 2]);
sub version { return Howdah::Test::Client->ask($live, "GET /version HTTP/1.0\r\n\r\n")->{body} }
is version(), 'first';

subtest 'the code is exchanged under a request that runs' => sub {
    my $slow = Howdah::Test::Client->asking($live, '/slow');
    sleep 0.3;
    my @old = $live->workers;
    $code->('second', '');
    $live->signal('HUP');
    ok $live->wait_until(sub { version() eq 'second' }), 'new requests see the new code';
    is $slow->response->{body}, 'first', 'the one that had begun is finished by the old code';
    ok $live->wait_until(sub {
        !grep { kill 0, $_ } @old;
        }),
        'the old workers leave';
    is scalar($live->workers), 2, 'and as many new ones are there';
};

subtest 'no request is lost' => sub {
    my @load = map { Howdah::Test::Load->start($live, connections => 8, seconds => 6, fresh => $_) } 0, 1;
    for my $round (1 .. 5) {
        $code->("round $round", '');
        $live->signal('HUP');
        ok $live->wait_until(sub { version() eq "round $round" }), "reload $round";
    }
    for my $result (map { $_->finish } @load) {
        is_deeply $result->{problems}, [];
        is_deeply [keys %{$result->{status}}], [200], "$result->{requests} requests";
    }
};

subtest 'code that does not load: its message in the log, and the old code stays' => sub {
    my @old = sort $live->workers;
    $code->('broken', 'use strict; $undeclared = 1;');
    $live->signal('HUP');
    ok $live->wait_for_log(qr/Global symbol "\$undeclared" requires/), 'logged';
    sleep 0.5;
    is version(), 'round 5', 'served by the old code';
    is_deeply [sort $live->workers], \@old, 'by the same workers';
    $code->('mended', '');
    $live->signal('HUP');
    ok $live->wait_until(sub { version() eq 'mended' }), 'and the next reload works';
    is $live->stop, 0;
};

done_testing;
