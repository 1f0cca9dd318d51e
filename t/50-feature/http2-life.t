# Connections of HTTP/2 while the server changes beneath them: reload, upgrade, killed workers, stop, and the end of those that
# rest. No request is lost, and clients are told in two steps to leave.
use strict;
use warnings;
use lib 't/lib';

use File::Temp ();
use Howdah::Test::Command qw(run_command);
use Howdah::Test::File qw(read_file);
use Howdah::Test::Frames;
use Howdah::Test::Operator;
use Howdah::Test::Server;
use Howdah::Test::Tls;
use Test::More;
use Time::HiRes qw(sleep time);

my $operator = Howdah::Test::Operator->new;

sub start {
    my (@options) = @_;
    return Howdah::Test::Server->start(file => 't/apps/streams.psgi', options => ['--workers', 2, @options]);
}

subtest 'a server that stops finishes what has begun, and says so before' => sub {
    my $server = start();
    my $client = Howdah::Test::Frames->new($server);
    my $idle   = Howdah::Test::Frames->new($server);
    $_->request(1, '/pid') for $client, $idle;
    $_->response(1) for $client, $idle;
    $client->request(3, '/grows');
    $client->next_frame;
    $server->signal('TERM');
    is $client->response(3)->{body}, "1\n2\n3\n4\n5\n", 'the response is whole';
    ok $_->is_closed(10), 'the connection ends' for $client, $idle;
    is_deeply [$_->goaways], [0, 0], 'after two GOAWAY frames' for $client, $idle;
    is $server->wait_for_exit(10), 0, 'and so does the server';
};

subtest 'a client that does not answer holds nobody up' => sub {
    my $server = start();
    my $client = Howdah::Test::Frames->new($server);
    $client->request(1, '/pid');
    $client->response(1);
    my $start = time;
    $server->signal('TERM');
    is $server->wait_for_exit(20), 0, 'the server ends';
};

subtest 'connections that rest, and those that have had their requests' => sub {
    for (
        ['--keepalive-timeout', '1s'],
        ['--keepalive-requests', 2],
        ['--disable-keepalive'],
        ['--header-timeout', '1s'],
        )
    {
        my $server = start(@$_);
        my $client = Howdah::Test::Frames->new($server);
        if ($_->[0] ne '--header-timeout') {
            $client->request($_, '/pid') for 1, 3;
            is $client->response(1)->{status}, 200, 'it is served';
        }
        ok $client->is_closed(10), "@$_";
        is_deeply [$client->goaways], [0, 0], 'its client is told';
    }
};

sub ends_its_side {
    my $how    = shift // 'shut';
    my $server = start();
    my $client = Howdah::Test::Frames->new($server, settings => {4 => 1 << 30});
    $client->send('WINDOW_UPDATE', 0, 0, pack 'N', 1 << 30);
    $client->request($_->[0], $_->[1]) for [1, '/pid'], [3, '/grows'], [5, '/big'];
    $client->request(7, '/length', method => 'POST', open => 1);
    $client->$how;
    like $client->response(1)->{body}, qr/^\d+$/, 'a response';
    is $client->response(3)->{body}, "1\n2\n3\n4\n5\n", 'one that grows';
    is length $client->response(5)->{body}, 3_000_000, 'one that is large';
    ok defined $client->response(7)->{reset}, 'but none to what it has not said whole';
    ok $client->is_closed(10), 'then the connection ends';
    return;
}

subtest 'a client that ends its side gets what it has asked for, and no more' =>
    sub { Howdah::Test::Tls::either_way(\&ends_its_side) };

subtest 'also one by TLS that does not say so' => sub {
    plan skip_all => 'needs IO::Socket::SSL and openssl' if !Howdah::Test::Tls->is_installed;
    local $ENV{TEST_OVER_TLS} = 1;
    ends_its_side('cut');
};

subtest 'reloads, upgrades and killed workers under load' => sub {
    plan skip_all => 'needs h2load' if (run_command('h2load', '--version'))[0];
    my $log    = File::Temp->new;
    my $server = start($operator->options, '--access-log', "$log", '--access-log-format', '%{User-Agent}i %>s');
    my $port   = $server->port;
    my $before = 0;
    for my $round (['reload', sub { $operator->ask('reload') }], ['upgrade', sub { $operator->ask('upgrade') }]) {
        my ($what, $act) = @$round;
        my $load = fork // die $!;
        if (!$load) {
            open STDOUT, '>', $server->dir . '/load' or die $!;
            exec 'h2load', '-t1', '-c8', '-m8', '-n300', "http://127.0.0.1:$port/pid" or POSIX::_exit(127);
        }
        sleep 1;
        my ($status, undef, $err) = $act->();
        is $status, 0, $what or diag $err;
        waitpid $load, 0;
        open my $in, '<', $server->dir . '/load' or die $!;
        my $said = join '', <$in>;

   # It opens no other connection once it is told to leave. What it says to have started it has not always sent then, so
   # that is seen here.
        my ($answered) = $said =~ /(\d+) succeeded/;
        my $arrived = sub { scalar(() = read_file("$log") =~ /^h2load/mg) - $before };
        $server->wait_until(sub { $arrived->() >= $answered });
        sleep 0.5;    # none comes behind
        is $answered, $arrived->(), 'each that has arrived is answered' or diag $said;
        cmp_ok $answered, '>', 8, "$answered requests";
        $before += $answered;
    }
    my $client = Howdah::Test::Frames->new($port);
    my $stream = -1;
    my %seen;
    for my $round (1 .. 20) {
        my @streams = map { $stream += 2 } 1 .. 8;
        $client->request($_, '/pid') for @streams;
        my ($victim) = $client->response($streams[0])->{body} =~ /^(\d+)$/;
        kill KILL => $victim if $victim;
        $seen{$client->response($_)->{status} // 'none'}++ for @streams;
    }
    is_deeply [grep { !/^(?:200|502)$/ } keys %seen], [], 'each request is answered by its application, or by 502'
        or diag explain \%seen;
    is $seen{200} + ($seen{502} // 0), 160, 'each';
};

done_testing;
