# The status page: what it says, in which shapes, to whom; it needs no worker, and shows what clients sent as text.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Command qw(run_howdah);
use Howdah::Test::Operator;
use Howdah::Test::Ports qw(free_port);
use Howdah::Test::Server;
use IO::Socket::INET ();
use IO::Socket::UNIX ();
use JSON::PP qw(decode_json);
use Test::More;
use Time::HiRes qw(sleep);

my $app = <<'PSGI';
sub {
    my $path = $_[0]{PATH_INFO};
    select undef, undef, undef, $1 if $path =~ m{^/slow/([\d.]+)};
    kill KILL => $$ if $path eq '/die';
    return [200, [], ["app $path"]];
};
PSGI

my @page = ('--status-path', '/server-status');

# A response, or with a name its body.
sub get {
    my ($to, $target, @headers) = @_;
    return Howdah::Test::Client->ask($to, join "\r\n", "GET $target HTTP/1.1", 'Host: localhost', @headers, '', '');
}
sub body { return get(@_)->{body} }
sub json { return decode_json(body($_[0], '/server-status?json')) }

sub busy {
    my ($server, $count, $target, @headers) = @_;
    my @clients = map { Howdah::Test::Client->new($server) } 1 .. $count;
    $_->write(join "\r\n", "GET $target HTTP/1.1", 'Host: x', @headers, '', '') for @clients;
    $server->wait_until(sub { json($server)->{scoreboard} =~ tr/W// >= $count });
    return @clients;
}

subtest 'it answers while every worker is busy' => sub {
    my $server  = Howdah::Test::Server->start(app => $app, options => [@page, '--workers', 2, '--max-queue', 77]);
    my @running = busy($server, 2, '/slow/2');
    my @waiting = map { Howdah::Test::Client->new($server) } 1 .. 3;
    $_->write("GET /wait HTTP/1.1\r\nHost: x\r\n\r\n") for @waiting;
    $server->wait_until(sub { json($server)->{queue}{depth} == 3 });
    my $state = json($server);
    is_deeply [@{$state->{queue}}{qw(depth limit)}], [3, 77], 'the queue';
    cmp_ok $state->{queue}{oldest_seconds}, '>', 0, 'and for how long the oldest waits';
    is $state->{connections}{by_state}{queued}, 3, 'connections that wait';
    is_deeply [map { $_->{request}{target} } @{$state->{workers}{list}}], [('/slow/2') x 2], 'what workers do';
    my ($worker) = @{$state->{workers}{list}};
    is_deeply [@{$worker->{request}}{qw(client host method protocol)}], ['127.0.0.1', 'x', 'GET', 'HTTP/1.1'];
    cmp_ok $worker->{memory}, '>', 50_000, 'memory of a worker';
    is_deeply [sort map { $_->{pid} } @{$state->{workers}{list}}], [sort $server->workers], 'process ids';
    is $_->response->{status}, 200 for @running, @waiting;
};

subtest 'shapes' => sub {
    my $server = Howdah::Test::Server->start(app => $app, options => [@page, '--workers', 2, '--name', 'shop']);
    body($server, '/some') for 1 .. 5;
    my $state = json($server);
    is $state->{requests}{by_class_and_method}{'2xx'}{GET}, $state->{requests}{total}, 'requests';
    is_deeply [@$state{qw(state generation)}, $state->{server}{name}], ['ready', 1, 'shop'];
    like $state->{server}{perl}, qr/^\Q$^V\E$/, 'the perl of the workers';
    is $state->{server}{pid}, $server->pid;
    is $state->{lifecycle}{spawns}, 2;

    my $auto = get($server, '/server-status?auto');
    like $auto->{headers}{'content-type'}[0], qr{^text/plain};
    my @keys = map { /^([^:]+): / ? $1 : () } split /\n/, $auto->{body};
    is_deeply [map { tr/ //dr } @keys], [qw(
        ServerVersion ServerMPM ServerBuilt CurrentTime RestartTime ParentServerConfigGeneration
        ParentServerMPMGeneration ServerUptimeSeconds ServerUptime Load1 Load5 Load15 TotalAccesses TotalkBytes
        TotalDuration CPUUser CPUSystem CPUChildrenUser CPUChildrenSystem CPULoad Uptime ReqPerSec BytesPerSec
        BytesPerReq DurationPerReq BusyWorkers GracefulWorkers IdleWorkers Processes Stopping ConnsTotal
        ConnsAsyncWaitIO ConnsAsyncWriting ConnsAsyncKeepAlive ConnsAsyncClosing Scoreboard CompiledTemplates
        UpgradedConns UpgradedConnsLimit UpgradedConnsTotal)],
        "mod_status's keys in order, then ours";
    like $auto->{body}, qr/^IdleWorkers: 2$/m;
    like $auto->{body}, qr/^Server Built: 20\d\d-/m;

    my $lite = decode_json(body($server, '/server-status?json=lite'));
    is_deeply [sort keys %$lite], [qw(BusyWorkers IdleWorkers TotalAccesses TotalKbytes Uptime stats)], 'json=lite';
    is_deeply [sort keys %{$lite->{stats}[0]}], [qw(host method pid protocol remote_addr ss status uri)];

    my $html = get($server, '/server-status');
    like $html->{headers}{'content-type'}[0], qr{^text/html};
    like $html->{headers}{'content-security-policy'}[0], qr/default-src 'none'/;
    is $html->{headers}{'cache-control'}[0], 'no-store';
    like $html->{body}, qr{<h1>shop</h1>};
    like $html->{body}, qr{<section id="workers"};
    unlike body($server, '/server-status?notable'), qr{<section id="workers"}, 'notable';
    is get($server, '/server-status?auto&refresh=7')->{headers}{refresh}[0], '7', 'refresh, as a field';
    like body($server, '/server-status?refresh=7'), qr/data-refresh="7"/, 'and in the page';
    my $head = Howdah::Test::Client->new($server);
    $head->write("HEAD /server-status HTTP/1.1\r\nHost: localhost\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n");
    cmp_ok $head->response(head => 1)->{headers}{'content-length'}[0], '>', 1000, 'HEAD';
    is $head->response->{body}, 'app /', 'and the connection goes on';
    is get($server, '/server-status/x')->{body}, 'app /server-status/x', 'no other path is taken';
    my $post =
        Howdah::Test::Client->ask($server, "POST /server-status HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
    is $post->{body}, 'app /server-status', 'nor another method';
};

subtest 'local time is that of the application, also by a TZ that does not say when summer time begins' => sub {
    my $server = Howdah::Test::Server->start(
        app     => 'sub { [200, [], [scalar localtime]] }',
        options => [@page, '--workers', 1],
        env     => {TZ => 'AAA-7BBB'}
    );
    my $own = sub { (body($server, '/') =~ /(\d\d:\d\d):/)[0] };
    my ($before, $auto, $after) = ($own->(), body($server, '/server-status?auto'), $own->());
    like $auto, qr/^CurrentTime: \w+, \d\d-\w+-\d{4} (?:$before|$after):\d\d (?:AAA|BBB)$/m;
};

subtest 'what clients send stays text' => sub {
    my $server  = Howdah::Test::Server->start(app => $app, options => [@page, '--workers', 1]);
    my $hostile = q{/slow/2/<script>alert(1)</script>"'>&amp;%0a};
    my @running = busy($server, 1, $hostile, qq{X-A: "><img src=x>});
    my $html    = body($server, '/server-status');
    unlike $html, qr/<script>alert|<img src=x/, 'no markup';
    like $html, qr/&lt;script&gt;alert\(1\)&lt;\/script&gt;&quot;&#39;&gt;&amp;amp;%0a/, 'but text';
    my $json = json($server)->{workers}{list}[0]{request}{target};
    is $json, $hostile, 'in JSON, too';
    unlike body($server, '/server-status?lite'), qr/[^\n -~]/, 'and in plain text';
    $_->response for @running;
    my ($long) = busy($server, 1, '/slow/1/' . 'x' x 6000);
    cmp_ok length json($server)->{workers}{list}[0]{request}{target}, '<', 3000, 'endless targets are cut';
};

subtest '--status-path, --no-status' => sub {
    my $server = Howdah::Test::Server->start(app => $app, options => ['--workers', 1, '--status-path', '/-/s']);
    like body($server, '/-/s?auto'), qr/^Scoreboard: /m;
    is body($server, '/server-status'), 'app /server-status', "the application's own";
    my $none =
        Howdah::Test::Server->start(app => $app, options => [@page, '--workers', 1], env => {HOWDAH_NO_STATUS => 1});
    is body($none, '/server-status'), 'app /server-status', 'switched off';
    my ($status, undef, $message) = run_howdah('--status-path', 'status', '-e', 'sub {}');
    is $status, 2;
    like $message, qr/'status' for '--status-path <PATH>': not a path/;
};

subtest '--status-listen: these pages alone, for whoever can reach it' => sub {
    my $port   = free_port();
    my $server = Howdah::Test::Server->launch(
        app     => 'sleep 2; ' . $app,
        options => ['--workers', 1, '--status-listen', "127.0.0.1:$port", qw(--ready-path /ready --health-path /health)]
    );
    $server->wait_for_log(qr/is being loaded/);
    is get($port, '/ready')->{status}, 503, 'not ready while the application is loaded';
    is get($port, '/health')->{status}, 200, 'but alive';
    is json($port)->{state}, 'starting';
    ok $server->wait_for_log(qr{/server-status /metrics /health /ready on http://127\.0\.0\.1:$port}), 'where it is';
    is get($port, '/ready', 'X-Forwarded-For: 192.0.2.1')->{status}, 200, 'ready';
    is get($port, '/server-status', 'X-Forwarded-For: 192.0.2.1')->{status}, 200, 'the status';

    for my $rest ("\r\n", "Content-Length: 5\r\n\r\nhello", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
    {
        my $response = Howdah::Test::Client->ask($port, "POST /app HTTP/1.1\r\nHost: x\r\n$rest");
        is $response->{status}, 404, 'nothing else';
    }
};

# What the control socket answers.
sub asked {
    my ($path, $command) = @_;
    my $socket = IO::Socket::UNIX->new(Peer => $path) or die "cannot connect to $path: $!";
    print {$socket} qq({"command":"$command"}\n);
    return decode_json(scalar <$socket>);
}

subtest '--status-listen goes over to the next process of an upgrade' => sub {
    my $operator = Howdah::Test::Operator->new;
    my $port     = free_port();
    my @options  = ('--workers', 1, '--status-listen', "127.0.0.1:$port", $operator->options);
    my $server   = Howdah::Test::Server->start(app => $app, options => \@options);
    is json($port)->{server}{pid}, $server->pid;
    my ($status, undef, $message) = $operator->ask('upgrade');
    is $status, 0 or diag $message;
    my $state = json($port);
    is $state->{server}{pid}, $operator->pid, 'the new process';
    is $state->{state}, 'ready';
    is asked($operator->control, 'snapshot')->{snapshot}{server}{pid}, $operator->pid, 'the same by the control socket';
    is get($port, '/app')->{status}, 404, 'has still nothing else there';
    is body($server, '/app'), 'app /app', 'and the application where it was';
};

subtest '--status-listen stays while the server drains' => sub {
    my $port     = free_port();
    my $operator = Howdah::Test::Operator->new;
    my $server   = Howdah::Test::Server->start(
        app     => $app,
        options =>
            [@page, '--workers', 1, '--status-listen', "127.0.0.1:$port", qw(--ready-path /ready), $operator->options]
    );
    my ($client) = busy($server, 1, '/slow/1.5');
    $server->signal('TERM');
    ok $server->wait_until(sub { json($port)->{state} eq 'draining' }), 'it tells that the server drains';
    my $state = json($port);
    is $state->{workers}{list}[0]{request}{target}, '/slow/1.5', 'and what is still running';
    is get($port, '/ready')->{status}, 503, 'not ready';
    my $connects = sub { IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $server->port) };
    ok $server->wait_until(sub { !$connects->() }), 'soon requests are not taken any more';
    my $watcher = Howdah::Test::Client->new($port);
    is $client->response->{body}, 'app /slow/1.5', 'the request has its answer';
    is $server->wait_for_exit(5), 0, 'a watcher does not keep the server';
};

subtest 'a connection that the application took' => sub {
    my $server = Howdah::Test::Server->start(
        options => [@page, '--workers', 1],
        app     =>
            'sub { my $io = $_[0]{"psgix.io"}; sub { shift; syswrite $io, "mine"; sysread $io, my $x, 9; close $io } }'
    );
    my $client = Howdah::Test::Client->asking($server, '/');
    ok $server->wait_until(sub { json($server)->{connections}{by_state}{detached} == 1 }), 'counts as detached';
    $client->write("bye");
    ok $server->wait_until(sub { json($server)->{connections}{by_state}{detached} == 0 }), 'until its end';
};

subtest 'what comes and goes' => sub {
    my $server = Howdah::Test::Server->start(
        app     => $app,
        options => [@page, qw(--workers 2 --ready-path /ready), '--access-log', '/dev/null']
    );
    is get($server, '/die')->{status}, 502;
    ok $server->wait_until(sub { json($server)->{lifecycle}{exits}{signal} == 1 }), 'a worker that was killed';
    is json($server)->{requests}{failures}{worker_lost}, 1, 'and its request';
    $server->signal('HUP');
    ok $server->wait_until(sub { json($server)->{lifecycle}{exits}{reload} == 2 }), 'a reload';
    my $state = json($server);
    is_deeply [@$state{qw(generation state)}, $state->{lifecycle}{reloads}], [2, 'ready', 1];
    cmp_ok $state->{times}{loaded}, '>', $state->{times}{started}, 'since when the generation serves';
    ok $server->wait_until(sub { json($server)->{access_log}{written} > 0 }), 'lines of the access log';
    $server->write_file('app.psgi', 'die "no more"');
    $server->signal('HUP');
    ok $server->wait_until(sub { json($server)->{lifecycle}{failed_reloads} == 1 }), 'a failed reload';
    is get($server, '/ready')->{body}, "ready\n", 'costs no readiness';
};

subtest 'CPU time counts those who have ended' => sub {
    my $burn   = 'sub { my $x = 0; $x += $_ for 1 .. 3_000_000; $_[0]{"psgix.harakiri.commit"} = 1; [200, [], [$x]] }';
    my $server = Howdah::Test::Server->start(app => $burn, options => [@page, '--workers', 1]);
    my $spent  = sub { json($server)->{cpu_seconds}{workers_user} };
    my $before = $spent->();
    is get($server, '/')->{status}, 200 for 1 .. 4;
    $server->wait_until(sub { json($server)->{lifecycle}{exits}{harakiri} >= 4 });
    cmp_ok $spent->(), '>', $before + 0.1;
    my $after = $spent->();
    $server->signal('HUP');
    $server->wait_until(sub { json($server)->{generation} == 2 });
    sleep 0.5;
    cmp_ok $spent->(), '>=', $after, 'it does not fall';
};

done_testing;
