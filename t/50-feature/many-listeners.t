# A server with more listeners than a packet between two processes has room for is replaced all the same, and the new process has
# all of them.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Command qw(howdah_bin run_command);
use Howdah::Test::Operator;
use Howdah::Test::Server;
use Test::More;

# The kernel passes 253 descriptors at once, of which some are for other things. With twice as many there are three packets.
use constant LISTENERS => 510;

my ($limit) = (run_command('sh', '-c', 'ulimit -H -n'))[1] =~ /(\d+)/;
plan skip_all => 'needs 2500 open files' if defined $limit && $limit < 2500;

# A server, who asks it, and its listeners.
sub start {
    my ($count, $files, @options) = @_;
    my $operator = Howdah::Test::Operator->new;
    my @paths    = map { $operator->dir . "/$_.sock" } 1 .. $count;
    my $server   = Howdah::Test::Server->start(
        app     => 'sub { [200, [], [$$]] }',
        command => [
            'sh', '-c', "ulimit -n $files; exec \"\$@\"", 'sh', howdah_bin(), '-l', '127.0.0.1:0',
            map { ('-l', $_) } @paths
        ],
        options => ['--workers', 1, $operator->options, @options],
    );
    return ($server, $operator, @paths);
}

sub answer { return Howdah::Test::Client->ask(shift, "GET / HTTP/1.0\r\n\r\n")->{body} }

sub is_replaced {
    my ($server, $operator, @paths) = @_;
    my ($old, $worker) = ($operator->pid, answer($server));
    is answer($_), $worker, 'served' for @paths[0, -1];
    my ($status, undef, $error) = $operator->ask('upgrade');
    is "$status $error", '0 ', 'howdah upgrade works';
    isnt $operator->pid, $old, 'another process serves';
    my $next = answer($server);
    isnt $next, $worker, '... with another worker';
    is_deeply [grep { answer($_) != $next } @paths], [], '... at every listener';
    ok $operator->wait_for_end($old), 'the old one leaves';
    is $operator->status->{server}{pid}, $operator->pid, 'the control socket is there';
    is + ($operator->ask('stop'))[0], 0, 'howdah stop works';
    return;
}

subtest 'more than a packet has room for' => sub { is_replaced(start(LISTENERS, 2500)) };

# What a successor is sent is there twice for a moment.
subtest 'so many that few descriptors are left, and clients have all that are theirs' => sub {
    my ($server, $operator, @paths) = start(60, 460, '--log-level', 'debug');
    my ($most) = $server->log =~ /at most (\d+) connections/;
    unlike $server->log, qr/that is enough for/, "the reserve is whole, and there is room for $most clients";
    my @begun = map { Howdah::Test::Client->new($server) } 2 .. $most;
    $_->write("GET / HTTP/1.1\r\n") for @begun;
    is_replaced($server, $operator, @paths);
};

done_testing;
