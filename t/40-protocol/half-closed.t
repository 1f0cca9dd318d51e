# A client that has ended its side may read its response all the same (RFC 9112 9.6): its request is answered however long
# it waits. Only a connection that is reset has nobody at its end, and its request is not run.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::File qw(write_file);
use Howdah::Test::Operator;
use Howdah::Test::Server;
use Socket qw(SOL_SOCKET SO_LINGER);
use Test::More;

my $app = 't/apps/slow.psgi';

sub ask { return Howdah::Test::Client->asking(@_) }

sub reset_connection {
    my $client = shift;
    setsockopt $client->socket, SOL_SOCKET, SO_LINGER, pack 'ii', 1, 0 or die "SO_LINGER: $!";
    return close $client->socket;
}

for my $listen ('127.0.0.1:0', 'unix') {
    my $dir      = File::Temp->newdir;
    my $path     = "$dir/socket";
    my $operator = Howdah::Test::Operator->new;
    my $server   = Howdah::Test::Server->start(
        file    => $app,
        options => ['--workers', 1, $operator->options],
        listen  => $listen eq 'unix' ? $path : $listen
    );
    my $to      = $listen eq 'unix' ? $path : $server->port;
    my $running = ask($to, "/until$dir/go");
    $server->wait_for_log(qr{ran /until});
    my @silent = map { ask($to, "/silent/$_") } 1 .. 200;
    $_->shut for @silent;
    my @leaving = map { ask($to, '/left') } 1 .. 20;
    ok $operator->sees_waiting($server, 220), "$listen: all of them wait";
    reset_connection($_) for @leaving;
    ok $operator->sees_waiting($server, 200), '... but for those who have reset their connection';
    write_file("$dir/go", '');
    is $running->response->{status}, 200, 'the one that runs';
    my @answers = map { $_->response->{body} } @silent;
    is_deeply [grep { $answers[$_ - 1] ne "/silent/$_" } 1 .. 200], [], '200 half-closed ones behind it are answered';
    is_deeply [grep { !$_->is_closed } @silent], [], '... and closed';
    is ask($to, '/last')->response->{status}, 200, 'and another';
    unlike $server->log, qr{ran /left}, 'those who reset their connection are not run';
}

done_testing;
