# Values of the access log that come from the application's env, and from heads that the front writes: whatever the
# way a response takes. What Apache says about the same is in access-log-apache.t.
use strict;
use warnings;
use lib 't/lib';

use File::Temp ();
use Howdah::Test::Client;
use Howdah::Test::Server;
use Test::More;

my $app = <<'PSGI';
my %do = (
    before => sub { $_[0]{NOTE} = 'set'; [200, [], ['x']] },
    delayed => sub { my $env = shift; sub { $env->{NOTE} = 'late'; shift->([200, [], ['x']]); $env->{NOTE} = 'later' } },
    stream => sub {
        my $env = shift;
        sub { my $w = shift->([200, []]); $w->write('x'); sleep 1; $env->{NOTE} = 'while it streams'; $w->close; $env->{NOTE} = 'no' };
    },
    file => sub {
        my $env = shift;
        open my $in, '<', '/etc/passwd' or die $!;
        sub { shift->([200, [], $in]); $env->{NOTE} = 'behind a file' };
    },
    large => sub { $_[0]{NOTE} = 'large'; [200, [], ['x' x 5_000_000]] },
    dies => sub { $_[0]{NOTE} = 'dead'; die "no\n" },
    object => sub { $_[0]{NOTE} = {}; $_[0]{REMOTE_USER} = bless [], 'User'; [200, [], ['x']] },
    number => sub { $_[0]{NOTE} = 4.5; $_[0]{REMOTE_USER} = 0; [200, [], ['x']] },
    latin => sub { my $text = "\xe9\x{100}"; chop $text; $_[0]{NOTE} = $text; [200, [], ['x']] },
    wide => sub { $_[0]{NOTE} = "\x{263a}"; [200, [], ['x']] },
    empty => sub { $_[0]{NOTE} = $_[0]{REMOTE_USER} = ''; [200, [], ['x']] },
    undef => sub { $_[0]{NOTE} = undef; [200, [], ['x']] },
    long => sub { $_[0]{NOTE} = 'n' x 100_000; $_[0]{REMOTE_USER} = 'ann'; [200, [], ['x']] },
    none => sub { [200, [], ['x']] },
    killed => sub { kill KILL => $$; sleep 60 },
    breaks => sub { sub { my $w = shift->([200, []]); $w->write('x' x 1000), sleep 1 for 1 .. 3; kill KILL => $$; sleep 60 } },
    ticks => sub { sub { my $w = shift->([200, []]); $w->write('x' x 999 . "\n"), select undef, undef, undef, .02 for 1 .. 200 } },
    whole => sub { [200, [], ['x' x 240_000]] },
);
sub { my $env = shift; my ($name) = $env->{PATH_INFO} =~ m{(\w+)$}; $do{$name}->($env) };
PSGI

my @pages  = ('--status-path', '/status', '--health-path', '/health', '--metrics-path', '/metrics');
my $host   = 'x';
my $server = server('%U%q %u %{NOTE}e %>s');

sub server {
    my ($format, @options) = @_;
    my $workers = ['--workers', 2, '--access-log', '-', '--access-log-format', "log $format", @pages, @options];
    return Howdah::Test::Server->start(app => $app, options => $workers);
}

sub ask {
    my ($path, @fields) = @_;
    my $head = join '', map { "$_\r\n" } "GET $path HTTP/1.1", "Host: $host", @fields, 'Connection: close';
    return Howdah::Test::Client->ask($server, "$head\r\n");
}

# The log's line that begins so, without its beginning.
sub line {
    my $start = quotemeta shift;
    $server->wait_for_log(qr/^log $start/m);
    my ($line) = $server->log =~ /^log $start ?(.*)$/m;
    return $line;
}

subtest 'the env as application and middleware have left it' => sub {
    my @cases = (
        [before  => '- set 200'],
        [delayed => '- later 200'],
        [stream  => '- while it streams 200'],
        [file    => '- behind a file 200'],
        [large   => '- large 200'],
        [dies    => '- dead 500'],
        [object  => '- - 200'],
        [number  => '0 4.5 200'],
        [latin   => '- \\xe9 200'],
        [wide    => '- \\xe2\\x98\\xba 200'],
        [empty   => '""  200'],
        [undef   => '- - 200'],
        [none    => '- - 200'],
    );
    for (@cases) { my ($name, $line) = @$_; ask("/$name"); is line("/$name"), $line, $name }
    ask('/long');
    like line('/long'), qr/^ann n{1000,1100} 200$/, 'a long value leaves room for the others';
    ask('/none?again');
    is line('/none?again'), '- - 200', 'nothing of another request is left';
};

subtest 'a client that leaves early' => sub {
    my $client = Howdah::Test::Client->asking($server, '/large?gone');
    sysread $client->socket, my $byte, 1;
    close $client->socket;
    like line('/large?gone'), qr/^- (?:large|-) 200$/;
};

subtest 'what was sent of a body that breaks off, without what is around it' => sub {
    my $directory = File::Temp->newdir;
    $server = server('%U %B', '--listen', "$directory/s", qw(--write-timeout 1s --response-spool 0));
    ask('/breaks');
    is line('/breaks'), 3000, 'chunks of a worker that is killed';
    my $client = Howdah::Test::Client->asking($server, '/ticks');
    $client->line for 1 .. 20;
    close $client->socket;
    my $ticks = line('/ticks');
    ok $ticks > 1000 && $ticks % 1000 == 0, 'chunks of which the client has not read all' or diag $ticks;

    for my $way ('/whole', '/large') {
        my $slow = Howdah::Test::Client->new("$directory/s");
        $slow->write("GET $way HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        my $sent = line($way);
        is length($slow->rest =~ s/.*?\r\n\r\n//sr), $sent, "$way, too much for its client";
    }
};

subtest 'fields that the front writes' => sub {
    my @names = qw(Date Server Content-Length Transfer-Encoding Connection X-Request-Id Retry-After);
    $server = server(join '|', '%U', '%>s', map { "%{$_}o" } @names);
    my $date = qr/[A-Z][a-z][a-z], \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT/;
    ask("/$_", 'X-Request-Id: i') for qw(none stream file dies health nowhere);
    like line('/none'), qr/^\|200\|$date\|Howdah\|1\|-\|close\|i\|-$/;
    like line('/stream'), qr/^\|200\|$date\|Howdah\|-\|chunked\|close\|i\|-$/;
    like line('/file'), qr/^\|200\|$date\|Howdah\|\d+\|-\|close\|i\|-$/;
    like line('/dies'), qr/^\|500\|$date\|-\|\d+\|-\|close\|i\|-$/;
    like line('/health'), qr/^\|200\|$date\|-\|\d+\|-\|close\|i\|-$/;
};

subtest 'pages of the front, as every other request' => sub {
    $host   = 'localhost';
    $server = server('%m %U%q %>s "%{X-Odd}i" "%{User-agent}i" %V %P');
    for my $page ('/status?auto', '/health', '/metrics') {
        ask($page, 'X-Odd: "\\', "User-Agent: tab\there \xff");
        is line("GET $page"), '200 "\\"\\\\" "tab\\there \\xff" localhost -', $page;
    }
    $host = 'x';
};

subtest 'PATH_INFO and the load of the application' => sub {
    $server = server('%U %{generation}n', '--access-log-compat', 'plack', '--path', '/app/');
    ask($_) for '/app/none', '/apple';
    is line('/none'), 1;
    is line('/apple'), 1, 'outside of it, all of the path';
    $server->signal('HUP');
    $server->wait_for_log(qr/requests go to the new generation/);
    ask('/app/before');
    is line('/before'), 2, 'after a reload';
};

subtest 'who died at a request' => sub {
    $server = server('%U %s %P %{generation}n');
    is ask('/killed')->{status}, 502;
    my $line = line('/killed');
    ok $server->wait_for_log(qr/worker died while it served a request.* pid=\d/), 'the error log has its process';
    my ($pid) = $server->log =~ /worker died while it served a request.* pid=(\d+)/;
    is $line, "502 $pid 1", 'and so has the line of the request';
};

subtest 'too many variables are refused at start' => sub {
    my $failed = Howdah::Test::Server->launch(
        app     => $app,
        options => ['--access-log', '-', '--access-log-format', join '', map { "%{V$_}e" } 1 .. 65]
    );
    isnt $failed->wait_for_exit, 0;
    like $failed->log, qr/--access-log-format has more variables than fit/;
};
done_testing;
