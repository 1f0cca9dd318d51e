# --max-connections: idle connections make room for new ones, the longest idle first; requests under way are never cut;
# where nobody is idle, new clients wait until there is room, and the server waits with them without spinning.
use strict;
use warnings;
use lib 't/lib';

use File::Temp ();
use Howdah::Test::Client;
use Howdah::Test::Server;
use Test::More;
use Time::HiRes qw(sleep time);

# /wait ends when its file is there.
my $app = <<'PSGI';
use Time::HiRes qw(sleep time);
sub {
    my ($file) = $_[0]{QUERY_STRING} =~ /(.+)/;
    for (my $end = time + 30 ; $file && !-e $file && time < $end ;) { sleep 0.02 }
    return [200, [], ["$_[0]{PATH_INFO} $_[0]{CONTENT_LENGTH}"]];
};
PSGI

sub start {
    my @options = @_;
    return Howdah::Test::Server->start(app => $app, options => ['--workers', 2, @options]);
}

sub ask {
    my ($client, $path) = @_;
    $client->write("GET $path HTTP/1.1\r\nHost: x\r\n\r\n");
    return $client;
}

sub client { my ($server, $path) = @_; return Howdah::Test::Client->asking($server, $path) }
sub is_served { my ($client, $path) = @_; return ask($client, $path)->response->{body} =~ /^\Q$path\E / }

# In order: each is idle before the next one comes.
sub idle_clients {
    my ($server, $count) = @_;
    return map {
        my $client = client($server, '/');
        $client->response;
        sleep 0.02;
        $client;
    } 1 .. $count;
}

subtest 'the longest idle makes room' => sub {
    my $server  = start('--max-connections', 6, '--keepalive-timeout', '60s');
    my @clients = idle_clients($server, 6);
    ok is_served($clients[0], '/again'), 'the oldest connection has been used since';
    my @new = map { client($server, "/new/$_") } 1 .. 2;
    is_deeply [map { $_->response->{status} } @new], [200, 200], 'new ones are served';
    ok $clients[$_]->is_closed, "number $_ has been idle for longest" for 1, 2;
    ok is_served($clients[$_], "/number/$_"), "number $_ stays" for 0, 3 .. 5;
};

subtest 'requests under way stay, running, waiting, or half received' => sub {
    my $server    = start('--max-connections', 8);
    my $go        = $server->dir . '/go';
    my @idle      = idle_clients($server, 2);
    my @under_way = map { client($server, "/wait/$_?$go") } 1 .. 4;
    push @under_way, Howdah::Test::Client->new($server);
    $under_way[-1]->write("POST /half HTTP/1.1\r\nHost: x\r\nContent-Le");
    my $partial = Howdah::Test::Client->new($server);
    $partial->write("POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" . 'b' x 70_000);
    sleep 0.2;

    # Workers are busy, so those who come are answered by the front itself. Two of them come at once.
    my @others = map { Howdah::Test::Client->new($server) } 1 .. 2;
    $_->write("nonsense\r\n\r\n") for @others;
    my @errors = map { $_->response->{status} } @others;
    undef @others;
    push @errors, map { Howdah::Test::Client->ask($server, "nonsense\r\n\r\n")->{status} } 1 .. 18;
    is_deeply \@errors, [(400) x 20], 'twenty others came and went';
    is scalar(grep { $_->is_closed } @idle), 2, 'in the place of the idle ones';
    $server->write_file('go', '');
    is_deeply [map { $_->response->{body} } @under_way[0 .. 3]], [map { "/wait/$_ " } 1 .. 4];
    $under_way[-1]->write("ngth: 0\r\n\r\n");
    is $under_way[-1]->response->{body}, '/half 0';
    $partial->write('b' x 30_000);
    is $partial->response->{body}, '/body 100000';
};

sub cpu_seconds {
    my $pid = shift;
    open my $in, '<', "/proc/$pid/stat" or return 0;
    my @fields = split ' ', <$in> =~ s/.*\) //r;
    return ($fields[11] + $fields[12]) / 100;
}

subtest 'where nobody is idle, new clients wait' => sub {
    my $dir     = File::Temp->newdir;
    my $server  = start('--max-connections', 5, '--status-listen', "$dir/pages", '--health-path', '/health');
    my $go      = $server->dir . '/go';
    my @running = map { client($server, "/wait/$_?$go") } 1 .. 5;
    sleep 0.3;
    my @waiting = map { client($server, "/waiting/$_") } 1 .. 3;
    ok $server->wait_for_log(qr/new connections wait: 5 connections are open, as many as --max-connections/), 'told';
    my ($cpu, $since) = (cpu_seconds($server->pid), time);
    sleep 2;
    cmp_ok cpu_seconds($server->pid) - $cpu, '<', 0.3 * (time - $since), 'no spinning';
    my $lines = () = $server->log =~ /new connections wait/g;
    cmp_ok $lines, '<=', 2 + (time - $since), "a line a second ($lines)";
    ok $_->is_quiet(0.01), 'it waits' for @waiting;
    is(
        Howdah::Test::Client->ask("$dir/pages", "GET /health HTTP/1.1\r\nHost: x\r\n\r\n")->{status},
        200, 'the own pages have places of their own'
    );
    $server->write_file('go', '');
    my @responses = map { $_->response } @running, @waiting;
    is_deeply [map { $_->{status} } @responses], [(200) x 8], 'all are served';
    cmp_ok scalar(grep { ($_->{headers}{connection}[0] // '') eq 'close' } @responses), '>', 0,
        'a connection is closed behind its response while others wait';
    is $server->stop, 0;
};

subtest 'clients that never say a word make room after a second' => sub {
    my $server = start('--max-connections', 4, '--header-timeout', '60s', '--front-threads', 2);
    my @silent = map { Howdah::Test::Client->new($server) } 1 .. 12;
    my $begin  = time;
    is client($server, "/new/$_")->response->{status}, 200 for 1 .. 6;
    cmp_ok time - $begin, '<', 15, 'long before --header-timeout';
};

# Each client has just been answered when another one comes, which could have its place at once.
subtest 'who has just been answered has time for another request' => sub {
    my $server = start('--max-connections', 1);
    my $served = 0;
    for my $turn (1 .. 20) {
        my $client = client($server, '/first');
        $client->response;
        my $other = client($server, '/other');
        sleep 0.005;
        $served++ if is_served($client, "/second/$turn");
        is $other->response->{status}, 200, 'another one, then';
    }
    cmp_ok $served, '>=', 15, "20 of 20 when the machine is quick: $served";
    my $idle = client($server, '/');
    $idle->response;
    sleep 0.2;
    is client($server, '/')->response->{status}, 200, 'one that does nothing for longer';
    ok $idle->is_closed, '... makes room';
};

# Whose connection is closed behind a response may have sent more, and has not read all of it.
subtest 'who reads slowly has the whole response before the connection makes room' => sub {
    my $length = 3_000_000;
    my $server = Howdah::Test::Server->start(
        app     => "sub { [200, [], [\$_[0]{PATH_INFO} eq '/large' ? 'x' x $length : 'short']] }",
        options => ['--max-connections', 1]
    );
    my $client = Howdah::Test::Client->new($server);
    $client->write('GET /large HT');
    sleep 0.1;
    my $other = client($server, '/other');
    sleep 0.1;
    $client->write("TP/1.1\r\nHost: x\r\n\r\n");
    for (1 .. 5) {
        sleep 0.1;
        ask($client, '/more');
    }
    is length $client->response->{body}, $length, 'all of it';
    undef $client;
    is $other->response->{body}, 'short', 'then another one';
};

# Those who have connected wait in the kernel, which would cut them off with the listener.
subtest 'who waits at a stop is served, as places become free' => sub {
    my $server = Howdah::Test::Server->start(
        app     => 'sub { select undef, undef, undef, 0.01; [200, [], ["ok"]] }',
        options => ['--max-connections', 2, '--workers', 2]
    );
    my @clients = map { client($server, "/$_") } 1 .. 12;
    sleep 0.1;
    $server->signal('TERM');
    my $served = 0;
    while (my $client = shift @clients) { $served++ if ($client->response->{status} // 0) == 200 }
    is $served, 12, 'all of them';
    is $server->wait_for_exit, 0, 'clean end';
};

done_testing;
