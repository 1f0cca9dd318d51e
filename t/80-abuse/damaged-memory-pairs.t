# Shared memory is damaged and replaced while something else goes on: an upload, a stream, a reload, a stop, log lines; and
# under plackup, whose zygote cannot be started again.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Operator;
use Howdah::Test::Server;
use POSIX ();
use Test::More;
use Time::HiRes qw(sleep);

my $damage = '$segment->write(1152, 2**47); "done"';                        # the head of the queue
my $head   = "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n";
my $found  = qr/written over shared memory: the queue's head/;

sub start {
    my @options = @_;
    return Howdah::Test::Server->start(file => 't/apps/scribble.psgi', options => ['--workers', 2, @options]);
}

sub run {
    my ($server, $code) = @_;
    my $client = Howdah::Test::Client->new($server);
    $client->write(sprintf($head, '/do', length $code) . $code);
    return $client;
}

# The same, once the workers are at it.
sub run_begun {
    my ($server, @codes) = @_;
    my @clients = map { run($server, qq{print STDERR "begun\\n"; $_}) } @codes;
    $server->wait_until(sub { @codes == (() = $server->log =~ /begun$/gm) }) or die 'not begun: ' . $server->log;
    return @clients;
}

sub is_replaced {
    my $server = shift;
    return ok $server->wait_for_log(qr/shared memory is replaced/), 'the memory is replaced';
}

subtest 'uploads under way and waiting come through whole' => sub {
    my $server = start();

    # Both workers have something to do until they are killed, so that none of the uploads has begun by then.
    my @busy   = run_begun($server, 'sleep 30', "sleep 0.5; $damage; sleep 30");
    my %size   = (1 => 500_000, 2 => 100_000, 4 => 60_000, 5 => 3_000_000);
    my %upload = map { $_ => Howdah::Test::Client->new($server) } keys %size;
    for my $id (keys %size) {
        my $half = $id == 1 || $id == 5 ? $size{$id} / 2 : 0;
        $upload{$id}->write(sprintf($head, "/1-$id", $size{$id}) . 'x' x ($size{$id} - $half));
    }
    is_replaced($server);
    $upload{$_}->write('x' x ($size{$_} / 2)) for 1, 5;
    is $upload{$_}->response->{body}, "1-$_ $size{$_}", "$size{$_} bytes" for sort keys %size;
    is $server->stop, 0;
};

subtest 'a stream under way is cut, and its log line whole' => sub {
    my $server = start('--access-log', '-', '--access-log-format', 'log %s %m %U %X %P');
    my $stream = Howdah::Test::Client->new($server);
    my $code   = 'sub { my $w = $_[0]->([200, []]); $w->write("some"); print STDERR "streams\n"; sleep 30 }';
    $stream->write(sprintf($head, '/app', length $code) . $code);
    $server->wait_for_log(qr/streams$/m);
    run($server, $damage);
    my $response = $stream->response;
    is_deeply [@$response{qw(status error)}], [200, 'body cut short'];
    ok $server->wait_for_log(qr{^log 200 POST /app X [1-9]}m), 'the log has the request' or diag $server->log;
    my ($runs) = run_begun($server, 'sleep 30');
    run($server, $damage);
    is $runs->response->{status}, 502, 'what has not begun to answer is told so';
    ok $server->wait_for_log(qr{^log 502 POST /do }m);
    is $server->stop, 0;
};

subtest 'with a reload, and with a stop' => sub {
    my $operator = Howdah::Test::Operator->new;
    my $server   = start($operator->options);
    run($server, $damage);
    is_deeply [$operator->ask("reload")]->[2], "", "a reload at the same time succeeds" or diag $server->log;
    is_replaced($server);
    is $operator->status->{generation}, 2;
    is(($operator->ask('reload'))[0], 0, 'and one afterwards');
    is run($server, '40 + 2')->response->{body}, 42;
    run($server, "sleep 0.2; $damage");
    my $last = run($server, 'sleep 0.5; "last"');
    sleep 0.1;
    my @wait = map { run($server, '"waited"') } 1 .. 3;
    sleep 0.05;
    $server->signal('TERM');
    is_deeply [map { $_->response->{body} } @wait], [('waited') x 3], 'a stop waits for those that wait';
    is $server->wait_for_exit, 0;
};

subtest 'a zygote that is being started gets the new memory alone' => sub {
    my $operator = Howdah::Test::Operator->new;
    my $server   = start($operator->options);
    my @starters = $server->launchers;
    kill STOP => @starters;
    my $reload = open my $out, '-|' // die $!;
    if (!$reload) {
        print +($operator->ask('reload'))[0];
        close STDOUT;
        POSIX::_exit(0);
    }
    sleep 0.3;
    run($server, $damage);
    is_replaced($server);
    kill CONT => @starters;
    is scalar(<$out>), 0, 'the reload succeeds' or diag $server->log;
    is $operator->status->{generation}, 2;
    is run($server, '40 + 2')->response->{body}, 42;
    is $server->stop, 0;
};

subtest 'under plackup' => sub {
    my ($plackup) = grep { -x } map { "$_/plackup" } split /:/, $ENV{PATH};
    my @command   = ($^X, $plackup, '-s', 'Howdah', '-E', 'deployment', '--workers', 2);
    my @options   = ('--listen', '127.0.0.1:0');
    my $server =
        Howdah::Test::Server->start(file => 't/apps/scribble.psgi', command => \@command, options => \@options);
    for my $round (1 .. 3) {
        my $before = () = $server->log =~ /$found/g;
        run($server, $damage);
        ok $server->wait_until(sub { (() = $server->log =~ /$found/g) > $before }), "round $round: it is found";
        is run($server, '40 + 2')->response->{body}, 42, 'and all goes on';
    }
    is $server->stop, 0;
};

done_testing;
