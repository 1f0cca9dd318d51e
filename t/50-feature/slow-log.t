# --slow-log: requests that take long are logged with where their time went, others are not.
use strict;
use warnings;
use lib 't/lib';

use File::Temp ();
use Howdah::Test::Client;
use Howdah::Test::Command qw(run_howdah);
use Howdah::Test::Operator;
use Howdah::Test::Server;
use Test::More;

my $app = <<'PSGI';
sub {
    my $path = $_[0]{PATH_INFO};
    my %sleep = ('/slow' => 0.4, '/brief' => 0.005);
    select undef, undef, undef, $sleep{$path} if $sleep{$path};
    if ($path eq '/hangs') { print STDERR "hangs\n"; sleep 30 }
    [200, [], [$path eq '/large' ? 'x' x 20_000_000 : 'hello']];
};
PSGI

sub server { return Howdah::Test::Server->start(app => $app, options => ['--workers', 1, @_]) }

sub client {
    my ($server, $path, $id) = @_;
    my $client = Howdah::Test::Client->new($server);
    $client->write("GET $path HTTP/1.1\r\nHost: x\r\nX-Request-Id: $id\r\n\r\n");
    return $client;
}

subtest 'in the error log' => sub {
    my $server = server('--slow-log', 300);
    my ($pid) = $server->workers;
    client($server, "/quick$_", 'q')->response for 1 .. 5;
    my @clients = (client($server, '/slow', 'first'), client($server, '/slow?x=1', 'second'));
    $_->response for @clients;
    my ($first, $second) = map { fields($server, $_) } qw(first second);
    is $first->{status}, 200;
    is $first->{pid}, $pid, 'the worker';
    cmp_ok $first->{bytes}, '>', 5;
    cmp_ok $first->{run_us}, '>=', 400_000, 'it ran';
    cmp_ok $first->{queue_us}, '<', 300_000;
    cmp_ok $second->{queue_us}, '>=', 100_000, 'it waited for the first';
    cmp_ok $second->{total_us}, '>=', $second->{queue_us} + $second->{run_us};
    like $second->{text}, qr{GET /slow\?x=1}, 'method and target';
    unlike $server->log, qr{slow request: GET /quick}, 'quick ones are not told';
};

subtest 'the target is what the client has sent, also in absolute-form and without another log' => sub {
    my $server = server('--slow-log', 300);
    client($server, 'http://other.example/slow?y', 'absolute')->response;
    my $told = fields($server, 'absolute');
    like $told->{text}, qr{GET http://other\.example/slow\?y };
};

subtest 'a slow client' => sub {
    my $server = server('--slow-log', '300ms');
    my $client = client($server, '/large', 'reader');
    select undef, undef, undef, 0.5;
    is length $client->response->{body}, 20_000_000;
    my $of = fields($server, 'reader');
    cmp_ok $of->{send_us}, '>=', 400_000, 'the time to send it';
};

subtest 'a client that leaves before there is a response' => sub {
    my $server = server('--slow-log', 1, '--abort-on-disconnect');
    my ($pid)  = $server->workers;
    my $client = client($server, '/hangs', 'left');
    ok $server->wait_for_log(qr/GET \/hangs: hangs/), 'its request runs';
    undef $client;
    my $left = fields($server, 'left');
    is $left->{pid}, $pid, 'the worker that ran it';
};

subtest '--slow-log-file' => sub {
    my $dir    = File::Temp->newdir;
    my $server = server('--slow-log', 300, '--slow-log-file', "$dir/slow");
    client($server, $_, 'filed')->response for qw(/quick /slow);
    is $server->stop, 0;
    open my $in, '<', "$dir/slow" or die $!;
    my @lines = <$in>;
    is @lines, 1;
    like $lines[0],
        qr{^\[[^]]+\] "GET /slow HTTP/1\.1" 200 bytes=\d+ total=4\d{5} queue=\d+ run=4\d{5} send=\d+ worker=\d+ request=filed$};
    unlike $server->log, qr/slow request/, 'not in the error log too';
};

subtest 'when everything is slow, the error log has some of it and a count' => sub {
    my $server = server('--slow-log', 1);
    $_->response for map { client($server, '/brief', "n$_") } 1 .. 100;
    my ($told, $more) = (0, 0);
    my $all = $server->wait_until(
        sub {
            my $log = $server->log;
            $told = () = $log =~ /slow request/g;
            $more = 0;
            $more += $1 while $log =~ /(\d+) more requests were slow/g;
            return $told + $more == 100;
        },
        5
    );
    ok $all, 'each of them is told or counted';
    cmp_ok $more, '>', 0;
};

subtest 'a file in trouble is called the slow-request log, also where the server is looked at' => sub {
    plan skip_all => 'no /dev/full' if !-c '/dev/full';
    my $operator = Howdah::Test::Operator->new;
    my @pages    = qw(--status-path /status --metrics-path /metrics --ready-path /ready);
    my $server   = Howdah::Test::Server->start(
        app     => 'sub { select undef, undef, undef, 0.1; [200, [], []] }',
        options => ['--slow-log', 50, '--slow-log-file', '/dev/full', @pages, $operator->options]
    );
    my $page = sub { Howdah::Test::Client->ask($server, "GET $_[0] HTTP/1.0\r\nHost: localhost\r\n\r\n")->{body} };
    unlike + ($operator->ask('status'))[1], qr/trouble/, 'nothing is wrong';
    Howdah::Test::Client->ask($server, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    ok $server->wait_for_log(qr{ERROR front: slow-request log /dev/full: No space left});
    my $trouble = qr{slow-request log /dev/full: No space left[^<]*; lines wait in memory};
    like + ($operator->ask('status'))[1], qr/^trouble     $trouble/m, 'howdah status';
    like $operator->status->{slow_log}{trouble}, $trouble, 'its JSON';
    like $page->('/status'), $trouble, 'the status page';
    like $page->('/ready'), qr/in trouble: see howdah status/, 'health';
    like $page->('/metrics'), qr/^howdah_slow_log_lines_total\{result="written"\} 0/m, 'metrics';
};

my ($status, undef, $said) = run_howdah(qw(--slow-log soon -e 1));
isnt $status, 0;
like $said, qr/milliseconds/, 'what is no time is refused';
done_testing;

# The members of the line about a request.
sub fields {
    my ($server, $id) = @_;
    $server->wait_for_log(qr/slow request: .*request_id=$id\b/) or return {};
    my ($line) = $server->log =~ /^(.*slow request: .*request_id=$id\b.*)$/m;
    return {text => $line, $line =~ /(\w+)=(\S+)/g};
}
