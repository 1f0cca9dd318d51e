# --front-threads: the first thread has all connections while it is not busy, else they are shared out, also those that are there
# already; a stop waits for those of each thread.
use strict;
use warnings;
use lib 't/lib';

use File::Temp ();
use Howdah::Test::Client;
use Howdah::Test::Server;
use Test::More;
use Time::HiRes qw(sleep time);

my $app = <<'PSGI';
use Time::HiRes qw(sleep time);
sub {
    my ($file) = $_[0]{QUERY_STRING} =~ /(.+)/;
    for (my $end = time + 30 ; $file && !-e $file && time < $end ;) { sleep 0.02 }
    read $_[0]{'psgi.input'}, my $body, 100;
    return [200, [], ["Hello" . ($body // '')]];
};
PSGI

# How many sockets each event loop of a process watches: the two descriptors of a loop count once.
sub watched {
    my $pid = shift;
    my %loops;
    for my $loop (grep { (readlink($_) // '') eq 'anon_inode:[eventpoll]' } glob "/proc/$pid/fd/*") {
        my ($number) = $loop =~ /(\d+)\z/;
        open my $info, '<', "/proc/$pid/fdinfo/$number" or return;
        my %seen    = map { /^tfd:\s+(\d+)/ ? ($1 => 1) : () } <$info>;
        my @sockets = grep { (readlink("/proc/$pid/fd/$_") // '') =~ /^socket:/ } sort keys %seen;
        $loops{"@sockets"} = @sockets;
    }
    my @counts = sort { $b <=> $a } values %loops;
    return @counts;
}

sub ask {
    my ($client, $target) = @_;
    $client->write("GET $target HTTP/1.1\r\nHost: x\r\n\r\n");
    return $client;
}

my $dir = File::Temp->newdir;
for my $listen ('127.0.0.1:0', "$dir/socket") {
    subtest "connections to $listen are shared out, and all are served to the end" => sub {
        my @options = ('--workers', 2, '--front-threads', 2, '--spread-connections');
        my $server  = Howdah::Test::Server->start(app => $app, listen => $listen, options => \@options);
        my @clients = map { Howdah::Test::Client->new($listen =~ m{/} ? $listen : $server) } 1 .. 60;
        is ask($_, '/')->response->{status}, 200 for @clients;
        my @counts = watched($server->pid);
    SKIP: {
            skip 'no look into the process', 1 if !@counts;
            cmp_ok $counts[1], '>=', 20, "each thread has its part (@counts)";
        }
        my $flag = $server->dir . '/go';
        ask($_, "/?$flag") for @clients[0, 1, 58, 59];
        $server->signal('QUIT');
        $server->write_file('go', '');
        is $_->response->{status}, 200 for @clients[0, 1, 58, 59];
        is $server->stop, 0;
    };
}

# Those by TLS stay where they are, and are shared out from the beginning.
my $by_tls = $ENV{TEST_OVER_TLS};

# The connections of each thread, once that is so, the more of them first.
sub shared_out {
    my ($server, $condition) = @_;
    my @counts;
    $server->wait_until(sub { @counts = watched($server->pid); $condition->(@counts) });
    return @counts;
}

subtest 'a thread that is not busy has all' => sub {
    plan skip_all => 'they come by TLS' if $by_tls;
    my $server  = Howdah::Test::Server->start(app => $app, options => ['--workers', 2, '--front-threads', 2]);
    my @none    = watched($server->pid);
    my @clients = map { Howdah::Test::Client->new($server) } 1 .. 60;
    is ask($_, '/')->response->{status}, 200 for @clients;
SKIP: {
        skip 'no look into the process', 1 if !@none;

        # The last of them may be answered before it is watched.
        my @counts = shared_out($server, sub { $_[0] + $_[1] >= $none[0] + $none[1] + 60 });
        is_deeply [@counts[0, 1]], [$none[0] + 60, $none[1]];
    }
    is $server->stop, 0;
};

subtest '... and as many requests as --max-queue lets wait' => sub {
    my @options = ('--workers', 1, '--front-threads', 2, '--max-queue', 200);
    my $server  = Howdah::Test::Server->start(app => $app, options => \@options);
    my $flag    = $server->dir . '/go';
    my @clients = map { ask(Howdah::Test::Client->new($server), "/?$flag") } 1 .. 190;
    sleep 0.3;
    $server->write_file('go', '');
    my %statuses;
    $statuses{$_->response->{status}}++ for @clients;
    is_deeply \%statuses, {200 => 190};
    is $server->stop, 0;
};

subtest 'connections come over between two requests' => sub {
    plan skip_all => 'they come by TLS' if $by_tls;
    my @options = ('--workers', 2, '--front-threads', 2, '--spread-connections', '--keepalive-requests', 12);
    my $server  = Howdah::Test::Server->start(app => $app, options => \@options);
    my @none    = watched($server->pid) or plan skip_all => 'no look into the process';
    my (@kept, @guests);
    my @has = @none;
    for my $number (1 .. 60) {
        my $client = Howdah::Test::Client->new($server);
        $client->write('G');    # the kernel keeps those to itself that say nothing
        my @counts = shared_out($server, sub { $_[0] + $_[1] == $none[0] + $none[1] + $number });
        if ($counts[1] > $has[1]) { push @guests, $client }
        else { push @kept, $client }
        @has = @counts;
    }
    cmp_ok scalar @guests, '>=', 20, 'the second thread has its part';
    close $_->socket for @guests;
    is_deeply [shared_out($server, sub { $_[1] == $none[1] })], [$none[0] + @kept, $none[1]], '... and loses it';
    $_->write("ET / HTTP/1.1\r\nHost: x\r\n\r\n") for @kept;
    is $_->response->{status}, 200 for @kept;
    my @ways = (
        ["GET / HTTP/1.1\r\nHost: x\r\n\r\n", 'Hello'],
        ["GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", 'Hello'],
        ["POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi", 'Hellohi'],
        ["GET / HTTP/1.1\r\nHost: x\r\n\r\n" x 2, 'Hello', 'Hello'],
    );
    for my $round (1 .. 5) {
        for my $way (0 .. $#ways) {
            my ($request, @bodies) = @{$ways[$way]};
            my @those = grep { $_ % @ways == $way } 0 .. $#kept;
            $kept[$_]->write($request) for @those;
            for my $body (@bodies) {
                is_deeply [grep { $_ ne $body } map { $kept[$_]->response->{body} } @those], [], "round $round: $body";
            }
        }
    }
    my @counts = watched($server->pid);
    cmp_ok $counts[1] - $none[1], '>=', 8, "then it has its part again (@counts)";
    my @last =
        map { ask($kept[$_], '/')->response->{headers}{connection}[0] // 'none' } grep { $_ % 4 == 3 } 0 .. $#kept;
    is_deeply [grep { $_ ne 'close' } @last], [], 'requests are counted on: the twelfth is the last';
    is $server->stop, 0;
};

done_testing;
