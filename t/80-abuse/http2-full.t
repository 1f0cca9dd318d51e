# Connections of HTTP/2 where something is used up: a disk that is full, descriptors that are none. Each stream waits for
# itself: who reads one slowly, or has asked for much, gets the rest; nothing is lost.
use strict;
use warnings;
use lib 't/lib';

use Digest::MD5 qw(md5_hex);
use File::Temp ();
use Howdah::Test::Command qw(howdah_bin);
use Howdah::Test::Frames qw(LAST);
use Howdah::Test::Inject;
use Howdah::Test::Operator;
use Howdah::Test::Server;
use List::Util qw(min);
use Test::More;

my $app = <<'PSGI';
use Digest::MD5 qw(md5_hex);
sub {
    my $env = shift;
    return [200, [], ['x' x 2_000_000]] if $env->{PATH_INFO} eq '/large';
    return [200, [], ['x' x 400_000]]   if $env->{PATH_INFO} eq '/whole';
    my $body = '';
    1 while $env->{'psgi.input'}->read($body, 65536, length $body);
    return [200, [], [md5_hex($body)]];
};
PSGI
my ($large, $most) = (2_000_000, 1 << 30);

# Its streams may have so much before their windows are opened.
sub client {
    my ($server, $window) = @_;
    my $client = Howdah::Test::Frames->new($server, settings => {4 => $window});
    $client->send('WINDOW_UPDATE', 0, 0, pack 'N', $most);
    return $client;
}

sub get {
    my ($client, $stream, $path) = @_;
    $client->request($stream, $path);
    return $client->response($stream);
}

# Sends a body on each of the streams, a piece of each in turn.
sub upload {
    my ($client, $body, @streams) = @_;
    $client->request($_, '/', method => 'POST', open => 1) for @streams;
    my @pieces = unpack '(a16000)*', $body;
    for my $number (0 .. $#pieces) {
        for my $stream (@streams) {
            $client->send('DATA', $number == $#pieces ? LAST : 0, $stream, $pieces[$number]);
        }
        1 while $client->next_frame(0.002);
    }
    return map { $client->response($_) } @streams;
}

subtest 'a disk that is full' => sub {
    my $dir = File::Temp->newdir('howdah-test-XXXXXX', TMPDIR => 1);
    plan skip_all => 'needs to mount a file system'
        if $> || system "mount -t tmpfs -o size=1m tmpfs $dir 2>/dev/null";
    eval {
        my $operator = Howdah::Test::Operator->new;
        my $server   = Howdah::Test::Server->start(
            app     => $app,
            options => [
                '--workers', 3, '--response-buffer', '64k', '--http2-window', '1m',
                '--spool-dir', "$dir", $operator->options
            ]
        );
        my $client = client($server, 1000);
        my @slow   = (1, 3);
        $client->request($_, '/large') for @slow;
        ok $server->wait_for_log(qr/cannot write a response to a file: No space left/), 'the log says so';
        is get($client, 5, '/')->{body}, md5_hex(''), 'another stream of the connection is served meanwhile';
        is get(client($server, 1000), 1, '/')->{body}, md5_hex(''), 'and another connection';
        my ($upload) = upload($client, 'y' x 400_000, 7);
        like $upload->{status}, qr/^(?:200|503)$/, 'a body is refused where there is no room for it';
        $client->send('WINDOW_UPDATE', 0, $_, pack 'N', $most) for @slow;
        is length $client->response($_)->{body}, $large, "what waited arrives whole ($_)" for @slow;
        ok $server->wait_until(sub { $operator->status->{spool}{bytes} == 0 }), 'nothing is left in files';
        my ($taken) = upload($client, 'y' x 400_000, 9);
        is $taken->{body}, md5_hex('y' x 400_000), 'then there is room for a body, on the same connection';
        close $client->socket;
        is $server->stop, 0, 'clean end';
        1;
    } or fail "died: $@";
    system 'umount', "$dir" and system 'umount', '-l', "$dir";
};

subtest 'no descriptor is left' => sub {
    my $operator = Howdah::Test::Operator->new;
    my $server   = Howdah::Test::Server->start(
        command =>
            ['sh', '-c', 'ulimit -n 64; exec "$@"', 'sh', howdah_bin(), '--listen', '127.0.0.1:0', '--workers', 3],
        options => [$operator->options, '--max-queue', 500, '--response-buffer', '64k'],
        app     => $app,
    );
    my $client = client($server, 1000);
    my @slow   = map { 2 * $_ + 1 } 0 .. 15;
    $client->request($_, '/large') for @slow;
    ok $server->wait_for_log(qr/no descriptor is left for a body/), 'the log says so';
    $client->send('WINDOW_UPDATE', 0, $_, pack 'N', $most) for @slow;
    is_deeply [grep { length $client->response($_)->{body} != $large } @slow], [], 'what waited arrives whole';
    my $come = grep { get(client($server, 1000), 1, '/')->{body} eq md5_hex('') } 1 .. 80;
    is $come, 80, 'connections come and go';
    my $other = client($server, 1000);
    my @many  = map { 2 * $_ + 1 } 0 .. 99;
    $other->request($_, '/') for @many;
    is_deeply [grep { $other->response($_)->{body} ne md5_hex('') } @many], [], 'a hundred streams are served';
    my $body = join '', map { md5_hex($_) } 1 .. 5000;
    is_deeply [map { $_->{body} } upload($other, $body, 201, 203, 205)], [(md5_hex($body)) x 3], 'bodies have files';
    close $_->socket for $client, $other;
    my $old = $operator->pid;
    is + ($operator->ask('reload'))[0], 0, 'howdah reload works';
    is + ($operator->ask('upgrade'))[0], 0, 'howdah upgrade works';
    ok $operator->wait_for_end($old), 'the old process leaves';
    is get(client($server, 1000), 1, '/')->{body}, md5_hex(''), 'the new one serves';
    is + ($operator->ask('stop'))[0], 0, 'clean end';
    unlike $server->log, qr/panicked/;
};

# Megabytes of memory that the front has for itself.
sub anonymous {
    my $server = shift;
    open my $in, '<', '/proc/' . $server->pid . '/status' or die "no status: $!";
    my ($size) = map { /^RssAnon:\s+(\d+)/ } <$in>;
    return $size / 1024;
}

subtest 'the memory for responses is used up, and there are no files' => sub {
    my $operator = Howdah::Test::Operator->new;
    my $server   = Howdah::Test::Server->start(
        app     => $app,
        options => ['--workers', 2, '--response-buffer', '64k', '--response-spool', 0, $operator->options]
    );
    my $before  = anonymous($server);
    my @streams = map { 2 * $_ + 1 } 0 .. 99;
    my @clients = map { client($server, 1000) } 1 .. 2;
    for my $client (@clients) { $client->request($_, '/whole') for @streams }
    my $made = sub {
        my @workers = @{$operator->status->{workers}{list}};
        my $all     = 0;
        $all += $_->{requests} for @workers;
        return $all == 200 && !grep { $_->{state} eq 'busy' } @workers;
    };
    ok $server->wait_until($made, 60), 'workers have made all responses, each of 400 KB, and do not wait for clients';
    cmp_ok anonymous($server) - $before, '<', 32, 'the front holds a small part of them';
    for my $client (@clients) {
        my @some = @streams[0, 1, 98, 99];
        $client->send('WINDOW_UPDATE', 0, $_, pack 'N', $most) for @some;
        is_deeply [map { length $client->response($_)->{body} } @some], [(400_000) x 4], 'who goes on has all of it';
    }
    close $_->socket for @clients;
    is get(client($server, 1000), 1, '/')->{body}, md5_hex(''), 'another one is served';
    is $server->stop, 0, 'clean end';
};

subtest 'a disk that hangs: who can send nothing because of it is not too slow' => sub {
    my $server = Howdah::Test::Server->start(app => $app, options => ['--workers', 1]);

    # To make a file takes that long.
    my $inject = Howdah::Test::Inject->new($server->pid, 'openat:delay_enter=18000000')
        or plan skip_all => Howdah::Test::Inject->NEEDS;
    my $client = client($server, 65_535);
    my @large  = (1, 3, 5, 7, 9);
    my %left   = map { $_ => $large } @large;
    $client->request($_, '/', method => 'POST', open => 1, fields => [['content-length', $large]]) for @large;
    my $go_on = sub {
        $client->next_frame(0.1);
        for my $stream (@large) {
            while (my $length = min($client->window($stream), 16_000, $left{$stream})) {
                $left{$stream} -= $length;
                $client->send('DATA', $left{$stream} ? 0 : LAST, $stream, 'x' x $length);
            }
        }
    };
    $go_on->() for 1 .. 20;
    is $client->window(11), 0, 'bodies that wait for the disk have used up the window of their connection';
    $client->request(11, '/', method => 'POST', open => 1);
    my $begun = time;
    $go_on->() while !$client->window(11) && !$client->{seen}{11}{status} && time < $begun + 30;
    cmp_ok time - $begun, '>', 10, 'after longer than a body may take for its first bytes';
    $client->send('DATA', LAST, 11, 'x');
    is $client->response(11)->{body}, md5_hex('x'), 'another one may come';
    $inject->end;
};

done_testing;
