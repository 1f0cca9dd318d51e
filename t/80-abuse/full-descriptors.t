# A server that may have 112 files open, so few that its reserve is just whole, and more clients than are left room for: it can still be asked and told, starts workers in
# the place of dead ones, takes uploads, sends files, reloads, reforks, and is replaced; whether its clients are idle or busy.
use strict;
use warnings;
use lib 't/lib';

use Digest::MD5 qw(md5_hex);
use Howdah::Test::Client;
use Howdah::Test::Command qw(howdah_bin);
use Howdah::Test::Operator;
use Howdah::Test::Server;
use Test::More;
use Time::HiRes qw(sleep time);

my $workers = 3;
my $limit   = 112;
my $big     = join '', map { md5_hex($_) } 1 .. 60_000;
my $app     = <<'PSGI';
use Digest::MD5 qw(md5_hex);
sub {
    my $env = shift;
    my ($file) = $env->{QUERY_STRING} =~ /(.+)/;
    if ($env->{PATH_INFO} eq '/file') { open my $in, '<', $file or die $!; return [200, [], $in] }
    return [200, [], ['x' x 12_000_000]] if $env->{PATH_INFO} eq '/large';
    for (1 .. 1500) { last if !$file || -e $file; select undef, undef, undef, 0.02 }
    my $body = '';
    1 while $env->{'psgi.input'}->read($body, 65536, length $body);
    return [200, [], [md5_hex($body)]];
};
PSGI

# The last two may be other variables of the environment and another application, for which there is one worker.
sub start {
    my @more = @_;
    my ($env, $code) = grep({ ref } @more) ? splice(@more, -2) : ({}, $app);
    my $count    = $code eq $app ? $workers : 1;
    my $operator = Howdah::Test::Operator->new;
    my $log      = $operator->dir . '/access.log';
    my @howdah   = (howdah_bin(), '--listen', '127.0.0.1:0', '--access-log', $log);
    my @options  = ($operator->options, '--workers', $count, '--max-queue', 500, @more);
    my $server   = Howdah::Test::Server->start(
        command => ['sh', '-c', "ulimit -n $limit; exec \"\$@\"", 'sh', @howdah],
        options => \@options,
        app     => $code,
        env     => $env,
    );
    return ($server, $operator);
}

# More than may be; those that get no answer wait in the kernel.
sub fill {
    my ($server, $path, $patience) = @_;
    my @clients = map { Howdah::Test::Client->new($server) } 1 .. 80;
    $_->write("GET $path HTTP/1.1\r\nHost: x\r\n\r\n") for @clients;
    my $end = time + $patience;
    for my $client (@clients) { $client->response(patience => $end - time) if time < $end }
    return @clients;
}

sub get { my ($server, $path) = @_; return Howdah::Test::Client->ask($server, "GET $path HTTP/1.1\r\nHost: x\r\n\r\n") }

sub chunked {
    my $body = shift;
    return join '', map({ sprintf "%x\r\n%s\r\n", length, $_ } unpack '(a60000)*', $body), "0\r\n\r\n";
}

sub can_be_told {
    my ($server, $operator) = @_;
    is $operator->status->{workers}{target}, $workers, 'howdah status answers';
    my @before = $server->workers;
    kill KILL => $before[0];
    my $replaced = sub {
        my @now = grep { $_ != $before[0] } $server->workers;
        @now == $workers;
    };
    ok $server->wait_until($replaced, 10), 'a worker that dies is replaced';
    my $log = $operator->dir . '/access.log';
    rename $log, "$log.1" or die $!;
    is_deeply [($operator->ask('reopen'))[0], -e $log], [0, 1], 'logs are opened anew';
    my ($status, undef, $error) = $operator->ask('reload');
    is "$status $error", '0 ', 'howdah reload works';
    return;
}

subtest 'full of idle clients' => sub {
    my ($server, $operator) = start();
    my @idle = fill($server, '/', 5);
    can_be_told($server, $operator);
    is get($server, '/')->{status}, 200, 'who comes is served';
    my $head   = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
    my @upload = map { Howdah::Test::Client->new($server) } 1 .. 3;
    $_->write($head . chunked($big)) for @upload;
    is_deeply [map { $_->response->{body} } @upload], [(md5_hex($big)) x 3], 'uploads have their files';
    my $file = $server->write_file('big', $big);
    is md5_hex(get($server, "/file?$file")->{body}), md5_hex($big), 'a file is sent';
    my $old = $operator->pid;
    my ($status, undef, $error) = $operator->ask('upgrade');
    is "$status $error", '0 ', 'howdah upgrade works';
    ok $operator->wait_for_end($old), 'the old process leaves';
    is get($server, '/')->{status}, 200, 'the new one serves';
    is(($operator->ask('stop'))[0], 0, 'howdah stop works');
};

subtest 'full of busy clients' => sub {
    my ($server, $operator) = start();
    my $go   = $server->dir . '/go';
    my @busy = fill($server, "/?$go", 0);
    ok $server->wait_for_log(qr/new connections wait: \d+ connections .* limit of open files \($limit\)/),
        'said in the log';
    can_be_told($server, $operator);
    my ($status, undef, $error) = $operator->ask('upgrade');
    is "$status $error", '0 ', 'howdah upgrade works';
    $server->write_file('go', '');
    my @served = grep { $_->response->{status} =~ /^(?:200|502)$/ } @busy;
    is scalar(@served), 80, 'all that wait are served in the end, but for the one whose worker died';
    unlike $server->log, qr/cannot|[Tt]oo many open files/, 'no call has failed for want of a descriptor';
    is(($operator->ask('stop'))[0], 0, 'howdah stop works');
};

subtest 'full of responses that wait for their clients' => sub {
    my ($server, $operator) = start('--log-level', 'debug');

    # Requests whose heads never end leave room for six clients, and so for as many files as are kept for files.
    my ($most) = $server->log =~ /at most (\d+) connections/;
    my @begun = map { Howdah::Test::Client->new($server) } 7 .. $most;
    $_->write("GET / HTTP/1.1\r\n") for @begun;
    my @slow = map { Howdah::Test::Client->new($server) } 1 .. 6;
    $_->write("GET /large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n") for @slow;
    ok $server->wait_until(sub { $operator->status->{spool}{bytes} > 1_000_000 }), 'some are in files';
    ok $server->wait_for_log(qr/no descriptor is left for a body/), 'for others there is none';
    can_be_told($server, $operator);
    my @lengths = map { length $_->response->{body} } @slow;
    is scalar(grep { $_ == 12_000_000 } @lengths), 5, 'all are whole, but for the one whose worker died'
        or diag "@lengths";
    is(($operator->ask('stop'))[0], 0, 'howdah stop works');
};

subtest 'a refork, with clients wherever there is room' => sub {
    my ($server, $operator) = start('--log-level', 'debug', '--refork', '20,40');
    my ($most) = $server->log =~ /at most (\d+) connections/;
    my @begun = map { Howdah::Test::Client->new($server) } 2 .. $most;
    $_->write("GET / HTTP/1.1\r\n") for @begun;
    my $last = Howdah::Test::Client->new($server);
    my $ask  = sub { $last->write("GET / HTTP/1.1\r\nHost: x\r\n\r\n"); return $last->response->{status} };
    is $ask->(), 200, 'the last one is served';
    is $operator->status->{connections}{open}, $most, 'there is room for no other';
    my $reforks = sub { $operator->status->{pools}[0]{reforks} };
    ok $server->wait_until(sub { $ask->() for 1 .. 10; $reforks->() == 2 }), 'two reforks' or diag $server->log;
    is $ask->(), 200, '... and it is served still';
    can_be_told($server, $operator);
    unlike $server->log, qr/cannot|[Tt]oo many open files|no refork/, 'no call has failed for want of a descriptor';
    is(($operator->ask('stop'))[0], 0, 'howdah stop works');
};

# A worker with so few descriptors left to itself: whatever it fails at, the reason is told, and the old zygote goes on.
subtest 'a refork by a worker that has used up its descriptors' => sub {
    my $hoarder = <<'PSGI';
our @all;
sub {
    if (!@all) {
        while (open my $one, '<', '/dev/null') { push @all, $one }
        pop @all for 1 .. $ENV{LEFT};
    }
    return [200, [], ['x']];
};
PSGI
    my %outcome =
        (0 => qr/Too many open files/, 1 => qr/^it has no descriptors for a control socket$/, 2 => undef, 20 => undef);
    for my $left (sort { $a <=> $b } keys %outcome) {
        my ($server, $operator) = start('--refork', 3, {LEFT => $left}, $hoarder);
        my $pool  = sub { $operator->status->{pools}[0] };
        my $ended = sub { get($server, '/'); $server->log =~ /no refork/ || $pool->()->{reforks} };
        ok $server->wait_until($ended), "$left left";
        my ($why) = $server->log =~ /no refork, the zygote stays: (.*?)\. The next try/s;
        if ($outcome{$left}) { like $why, $outcome{$left}, 'the reason why there is none' }
        else { is $why, undef, 'is enough' }
        is get($server, '/')->{status}, 200, 'the server serves';
        is $server->stop, 0;
    }
};

subtest 'a limit that is lowered while the server runs' => sub {
    plan skip_all => 'needs prlimit' if system('prlimit --version >/dev/null 2>&1') != 0;
    my ($server, $operator) = start();
    my @idle = fill($server, '/', 5);
    system('prlimit', '--pid', $server->pid, '--nofile=104') == 0 or die 'prlimit failed';
    ok $server->wait_for_log(qr/limit of open files has been changed from $limit to 104/), 'is noticed';
    sleep 0.3;
    can_be_told($server, $operator);
    is get($server, '/')->{status}, 200;
};

done_testing;
