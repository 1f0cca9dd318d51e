# --front-threads: connections are shared out, whoever accepts them; a stop waits for those of each thread.
use strict;
use warnings;
use lib 't/lib';

use File::Temp ();
use Howdah::Test::Client;
use Howdah::Test::Server;
use Test::More;
use Time::HiRes qw(sleep time);

my $app = <<'PSGI';
use Time::HiRes qw(sleep time);
sub {
    my ($file) = $_[0]{QUERY_STRING} =~ /(.+)/;
    for (my $end = time + 30 ; $file && !-e $file && time < $end ;) { sleep 0.02 }
    return [200, [], ["Hello"]];
};
PSGI

# How many sockets each event loop of a process watches: the two descriptors of a loop count once.
sub watched {
    my $pid = shift;
    my %loops;
    for my $loop (grep { (readlink($_) // '') eq 'anon_inode:[eventpoll]' } glob "/proc/$pid/fd/*") {
        my ($number) = $loop =~ /(\d+)\z/;
        open my $info, '<', "/proc/$pid/fdinfo/$number" or return;
        my %seen    = map { /^tfd:\s+(\d+)/ ? ($1 => 1) : () } <$info>;
        my @sockets = grep { (readlink("/proc/$pid/fd/$_") // '') =~ /^socket:/ } sort keys %seen;
        $loops{"@sockets"} = @sockets;
    }
    my @counts = sort { $b <=> $a } values %loops;
    return @counts;
}

sub ask {
    my ($client, $target) = @_;
    $client->write("GET $target HTTP/1.1\r\nHost: x\r\n\r\n");
    return $client;
}

my $dir = File::Temp->newdir;
for my $listen ('127.0.0.1:0', "$dir/socket") {
    subtest "connections to $listen are shared out, and all are served to the end" => sub {
        my @options = ('--workers', 2, '--front-threads', 2);
        my $server  = Howdah::Test::Server->start(app => $app, listen => $listen, options => \@options);
        my @clients = map { Howdah::Test::Client->new($listen =~ m{/} ? $listen : $server) } 1 .. 60;
        is ask($_, '/')->response->{status}, 200 for @clients;
        my @counts = watched($server->pid);
    SKIP: {
            skip 'no look into the process', 1 if !@counts;
            cmp_ok $counts[1], '>=', 20, "each thread has its part (@counts)";
        }
        my $flag = $server->dir . '/go';
        ask($_, "/?$flag") for @clients[0, 1, 58, 59];
        $server->signal('QUIT');
        $server->write_file('go', '');
        is $_->response->{status}, 200 for @clients[0, 1, 58, 59];
        is $server->stop, 0;
    };
}

done_testing;
