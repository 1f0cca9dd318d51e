# Where responses to slow readers find no room in files, because the disk is full or by --response-spool, workers wait for
# the readers: nothing is lost, and the log says so once. When there is room again, it is used.
use strict;
use warnings;
use lib 't/lib';

use Digest::MD5 qw(md5_hex);
use File::Temp ();
use Howdah::Test::Client;
use Howdah::Test::Operator;
use Howdah::Test::Server;
use Test::More;

my $whole = md5_hex((join '', map { sprintf "%07d\n", $_ } 1 .. 125_000) x 12);

sub ask {
    my ($server, $path) = @_;
    my $client = Howdah::Test::Client->new($server);
    $client->write("GET $path HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    return $client;
}

sub lines { my ($server, $pattern) = @_; return scalar(() = $server->log =~ /$pattern/g) }

# Fills up what there is by two readers, a third finds no worker. `room` makes some.
sub fills_up {
    my ($line, $room, @options) = @_;
    my $operator = Howdah::Test::Operator->new;
    my $server   = Howdah::Test::Server->start(
        file    => 't/apps/large.psgi',
        options => ['--workers', 2, '--response-buffer', '64k', $operator->options, @options],
    );
    my @readers = map { ask($server, $_) } '/given', '/stream';
    ok $server->wait_for_log($line), 'the log says why';
    my $other = ask($server, '/hello');
    ok $other->is_quiet(1.5), 'the workers wait';
    is scalar(grep { md5_hex($_->response->{body}) eq $whole } @readers), 2, 'the responses arrive whole';
    is $other->response->{status}, 200, 'and the workers are free';
    is lines($server, $line), 1, 'the log has said it once';
    ok $server->wait_until(sub { $operator->status->{spool}{bytes} == 0 }), 'nothing is left in files';
    return if !$room;

    # A disk that has failed is left alone for a second.
    $room->();
    my $free = sub {
        my @again = map { ask($server, $_) } '/given', '/stream';
        my $free  = !ask($server, '/hello')->is_quiet(0.5);
        return grep({ md5_hex($_->response->{body}) eq $whole } @again) == 2 && $free;
    };
    ok $server->wait_until($free), 'files are used when they have room again';
    return;
}

subtest '--response-spool is used up' => sub {
    fills_up(qr/slow readers have filled --response-spool \(1048576 bytes\)/, undef, qw(--response-spool 1m));
};

subtest 'the disk is full' => sub {
    my $dir = File::Temp->newdir('howdah-test-XXXXXX', TMPDIR => 1);
    plan skip_all => 'needs to mount a file system'
        if $> || system "mount -t tmpfs -o size=2m tmpfs $dir 2>/dev/null";
    my $more = sub { system "mount -o remount,size=64m $dir" and die 'cannot remount' };
    eval {
        fills_up(qr/cannot write a response to a file: No space left/, $more, '--spool-dir', "$dir");
        1;
    } or fail "died: $@";
    system 'umount', "$dir" and system 'umount', '-l', "$dir";
};

done_testing;
