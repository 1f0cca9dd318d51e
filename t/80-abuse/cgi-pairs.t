# CGI scripts while something else goes on: an upgrade of the server under load, a disk that takes no request body, shared
# memory that is written over. No request is lost that was not running, and each mode goes on.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Load;
use Howdah::Test::Operator;
use Howdah::Test::Scripts;
use Howdah::Test::Segment;
use Howdah::Test::Server;
use Test::More;
use Time::HiRes qw(sleep);

my $scripts = Howdah::Test::Scripts->new('load.pl' => <<'PERL', 'slow.pl' => <<'SLOW');
#!/usr/bin/perl
my $length = 0;
while (my $read = read STDIN, my $piece, 65536) { $length += $read }
print "Content-Type: text/plain\n\n", substr($ENV{PATH_INFO}, 1), " $length";
PERL
#!/usr/bin/perl
select undef, undef, undef, 1;
print "Content-Type: text/plain\n\nslow";
SLOW

my @modes = qw(exec fork keep);
my $dir   = $scripts->dir;

sub start {
    my ($operator, @more) = @_;
    my @mounts = map { ('--cgi', "/$_=$dir,mode=$_,workers=4") } @modes;
    return Howdah::Test::Server->start(options => [@mounts, $operator->options, @more]);
}

sub ask {
    my ($server, $path, $body) = @_;
    my $client = Howdah::Test::Client->new($server);
    $client->write(sprintf "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", $path, length $body, $body);
    return $client;
}

subtest 'two upgrades under load' => sub {
    my $operator = Howdah::Test::Operator->new;
    my $server   = start($operator);
    my @load =
        map { Howdah::Test::Load->start($server, connections => 2, below => "/$_/load.pl", fresh => $_ eq 'keep') }
        @modes;
    for (1, 2) {
        sleep 1;
        my $old = $operator->pid;
        is + ($operator->ask('upgrade'))[0], 0;
        ok $operator->wait_for_end($old), 'the old process leaves';
    }
    for my $load (@load) {
        my $result = $load->stop->finish;
        is_deeply [$result->{problems}, keys %{$result->{status}}], [[], 200], "$result->{requests} requests";
    }
    kill TERM => my $last = $operator->pid;
    ok $operator->wait_for_end($last), 'and the new one, with its hosts';
};

subtest 'a disk that is full' => sub {
    my $small = File::Temp->newdir('howdah-test-XXXXXX', TMPDIR => 1);
    plan skip_all => 'needs to mount a file system'
        if system "mount -t tmpfs -o size=1m tmpfs $small 2>/dev/null";
    my $operator = Howdah::Test::Operator->new;
    my $server   = do { local $ENV{TMPDIR} = "$small"; start($operator, '--max-body-size', '20m') };
    for my $mode (@modes) {
        is ask($server, "/$mode/load.pl/1-1", 'x' x 3_000_000)->response->{status}, 503, "$mode: no room for a body";
        is ask($server, "/$mode/load.pl/1-2", 'x' x 300_000)->response->{body}, '1-2 300000', '... for a smaller one';
    }
    is $server->stop, 0;
    system "umount $small";
};

subtest 'shared memory that is written over' => sub {
    my $operator = Howdah::Test::Operator->new;
    my $server   = start($operator);
    for my $mode (qw(exec fork)) {
        my ($host) = grep { "@{[title($_)]}" =~ m{/$mode/} } $server->processes('cgi-host');
        my @slow   = map { ask($server, "/$mode/slow.pl", '') } 1 .. 4;
        my @wait   = map { ask($server, "/$mode/load.pl/1-$_", 'body') } 1 .. 4;
        sleep 0.4;
        Howdah::Test::Segment->new($host)->write(1152, 2**47);    # the head of the queue
        is_deeply [map { $_->response->{status} } @slow], [(502) x 4], "$mode: what runs is lost";
        is_deeply [map { $_->response->{body} } @wait], [map { "1-$_ 4" } 1 .. 4], 'what waits is not';
    }
    is scalar(() = $server->log =~ /shared memory is replaced/g), 2, 'the log says it';
    is $server->stop, 0;
};

done_testing;

sub title {
    my $pid = shift;
    open my $in, '<', "/proc/$pid/cmdline" or return '';
    return scalar(<$in>) =~ tr/\0/ /r;
}
