# As many lines as requests, each of them whole: over reloads and rotations under load, when clients leave, when the command
# that reads them dies, and when the disk is full.
use strict;
use warnings;
use lib 't/lib';

use File::Temp ();
use Howdah::Test::Client;
use Howdah::Test::Frames;
use Howdah::Test::Load;
use Howdah::Test::Operator;
use Howdah::Test::Server;
use Test::More;
use Time::HiRes qw(sleep);

my $whole = qr{^127\.0\.0\.1 - - \[[^]]+\] "[A-Z]+ /\S* HTTP/1\.1" \d{3} (?:\d+|-) "-" "-"\n\z};

sub lines_of {
    my @lines;
    for my $file (@_) {
        open my $in, '<:raw', $file or die "cannot read $file: $!";
        push @lines, <$in>;
    }
    return @lines;
}

sub ask { return Howdah::Test::Client->ask($_[0], "GET /$_[1] HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n") }

for my $threads (1, 2) {
    subtest "ten reloads and rotations under load, front threads: $threads" => sub {
        my $dir      = File::Temp->newdir;
        my $operator = Howdah::Test::Operator->new;
        my @options  = ('--workers', 2, '--front-threads', $threads, '--access-log', "$dir/log", $operator->options);
        my $server   = Howdah::Test::Server->start(file => 't/apps/load.psgi', options => \@options);
        my @load     = map { Howdah::Test::Load->start($server, connections => 6, fresh => $_) } 0, 1;
        for my $round (1 .. 10) {
            is(($operator->ask('reload'))[0], 0, "reload $round");
            rename "$dir/log", "$dir/log.$round" or die $!;
            if ($round % 2) { is(($operator->ask('reopen'))[0], 0, 'reopen') }
            else {
                $server->signal('USR1');
                ok $server->wait_until(sub { -e "$dir/log" }), 'USR1';
            }
        }
        my $requests = 0;
        for my $result (map { $_->stop->finish } @load) {
            is_deeply $result->{problems}, [];
            $requests += $result->{requests};
        }
        is $server->stop, 0;
        my @lines = lines_of(glob "$dir/log*");
        is scalar(@lines), $requests, "a line for each of $requests requests";
        is scalar(grep { !/$whole/ } @lines), 0, 'and none is torn';
        is scalar(grep { -s "$dir/log.$_" } 1 .. 10), 10, 'every file has its share';
    };
}

subtest 'a request that is refused since its fields are too many when they are joined, and the one behind it' => sub {
    my $dir    = File::Temp->newdir;
    my $server = Howdah::Test::Server->start(
        app     => 'sub { [200, [], []] }',
        options => ['--access-log', "$dir/log", '--access-log-format', '%m %U %s']
    );
    my $turns  = join '', map { "X-$_: " . 'x' x 600 . "\r\n" } ('A', 'B') x 50;
    my $client = Howdah::Test::Client->new($server);
    $client->write("GET /first HTTP/1.1\r\nHost: x\r\n$turns\r\nGET /second HTTP/1.1\r\nHost: x\r\n\r\n");
    is_deeply [map { $client->response->{status} } 1, 2], [431, 200];
    is $server->stop, 0;
    is_deeply [lines_of("$dir/log")], ["GET /first 431\n", "GET /second 200\n"];
};

subtest 'a client that leaves within its upload' => sub {
    my $dir    = File::Temp->newdir;
    my $server = Howdah::Test::Server->start(
        app     => 'sub { [200, [], []] }',
        options => ['--access-log', "$dir/log", '--access-log-format', '%m %U %H %L %s %I %X']
    );
    my %bodies = (
        small   => "Content-Length: 100\r\n\r\nabc",
        large   => "Content-Length: 1000000\r\n\r\nabc",
        chunked => "Transfer-Encoding: chunked\r\n\r\n5\r\nabc",
    );
    my %heads = map { $_ => "POST /$_ HTTP/1.1\r\nHost: x\r\nX-Request-Id: $_\r\n$bodies{$_}" } keys %bodies;
    Howdah::Test::Client->new($server)->write($_) for values %heads;
    my $streams = Howdah::Test::Frames->new($server);
    for my $stream (1, 3) {
        $streams->request($stream, "/$stream", method => 'POST', open => 1, fields => [['x-request-id', "s$stream"]]);
        $streams->send('DATA', 0, $stream, 'abc');
    }
    $streams->send('RST_STREAM', 0, 1, pack 'N', 8);
    my $has = sub { my $count = shift; return -e "$dir/log" && lines_of("$dir/log") == $count };
    ok $server->wait_until(sub { $has->(4) }, 20), 'a line for each';
    undef $streams;
    ok $server->wait_until(sub { $has->(5) }, 20), 'and for one whose connection ends';
    my @expected = map { "POST /$_ HTTP/1.1 $_ - " . length($heads{$_}) . " X\n" } keys %heads;
    my @lines    = lines_of("$dir/log");
    is_deeply [sort grep { m{HTTP/1} } @lines], [sort @expected], 'with its words and bytes';
    is_deeply [sort map { s/ - \d+ / - N /r } grep { m{HTTP/2} } @lines],
        [map { "POST /$_ HTTP/2 s$_ - N X\n" } 1, 3], 'by HTTP/2, too';
    is $server->stop, 0;
};

subtest 'a body that has not the length of its head' => sub {
    my $dir    = File::Temp->newdir;
    my $server = Howdah::Test::Server->start(
        app     => 'sub { [200, ["Content-Length", $_[0]{PATH_INFO} =~ m{(\d+)}], ["four"]] }',
        options => ['--workers', 1, '--access-log', "$dir/log", '--access-log-format', '%U %B %X']
    );
    my $streams = Howdah::Test::Frames->new($server);
    my $has     = sub { my $count = shift; return -e "$dir/log" && lines_of("$dir/log") == $count };
    my $lines   = 0;
    for my $length (2, 4, 9) {
        my $client = Howdah::Test::Client->asking($server, "/one/$length");
        ok $server->wait_until(sub { $has->($lines + 1) }, 20), "$length by HTTP/1";
        $streams->request(2 * $length + 1, "/two/$length");
        ok $server->wait_until(sub { $has->($lines + 2) }, 20), "$length by HTTP/2";
        $lines += 2;
    }
    undef $streams;
    is $server->stop, 0;
    is_deeply [grep { m{^/one} } lines_of("$dir/log")], ["/one/2 2 -\n", "/one/4 4 +\n", "/one/9 4 X\n"], 'HTTP/1';
    is_deeply [grep { m{/9 } } lines_of("$dir/log")], ["/one/9 4 X\n", "/two/9 4 X\n"],
        'one that is too short, by either';
};

subtest 'a command that dies is started anew' => sub {
    my $dir     = File::Temp->newdir;
    my $command = "|echo \$\$ >>$dir/pids; exec cat >>$dir/log";
    my $server  = Howdah::Test::Server->start(app => 'sub { [200, [], []] }', options => ['--access-log', $command]);
    ask($server, "before/$_") for 1 .. 5;
    ok $server->wait_until(sub { -e "$dir/log" && lines_of("$dir/log") == 5 }, 5), 'lines from before';
    my ($pid) = lines_of("$dir/pids");
    kill KILL => $pid;
    sleep 1.2;
    ask($server, "after/$_") for 1 .. 5;
    ok $server->wait_until(sub { lines_of("$dir/log") == 10 }, 10), 'and from after it';
    is scalar(grep { !/$whole/ } lines_of("$dir/log")), 0, 'whole ones';
    is scalar(lines_of("$dir/pids")), 2;
    ok $server->wait_for_log(qr{access log \|echo .*Broken pipe}), 'the error log knows';
    is $server->stop, 0;
};

subtest 'a full disk holds up nobody, and what is lost is counted' => sub {
    plan skip_all => 'no /dev/full' if !-c '/dev/full';
    my @options = ('--access-log', '/dev/full', '--metrics-path', '/metrics');
    my $server  = Howdah::Test::Server->start(app => 'sub { [200, [], ["ok"]] }', options => \@options);
    is ask($server, $_)->{body}, 'ok' for 1 .. 20;
    ok $server->wait_for_log(qr{/dev/full.*No space left}), 'told at once';
    is $server->stop, 0;
    like $server->log, qr/20 lines of the access log are lost, 0 are written/, 'and how many, at the end';
};
done_testing;
