# Connections that an application has taken, at their ends: clients that vanish, workers that are killed, and slow readers on
# both sides. Plain ones the application has itself; those with TLS the front carries.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Server;
use Howdah::Test::Tls;
use Socket qw(SOL_SOCKET SO_LINGER);
use Test::More;
use Time::HiRes qw(sleep);

my $app = <<'PSGI';
use Socket qw(SHUT_WR);
sub lines { my $io = shift; while (defined(my $line = <$io>)) { printf {$io} "%07d %s", $$, $line } warn sprintf "the client of %07d has left\n", $$ }
my %do = (
    '/lines'  => \&lines,
    '/mine'   => sub { print {$_[0]} 'mine'; kill KILL => $$; sleep 10 },
    '/exit'   => sub { print {$_[0]} 'mine'; exit },
    '/die'    => sub { print {$_[0]} 'mine'; die "in its own protocol\n" },
    '/close'  => sub { print {$_[0]} 'mine'; close $_[0]; sleep 1 },
    '/flood'  => sub { print {$_[0]} 'x' x 65536 for 1 .. 320 },
    '/left'   => sub { printf {$_[0]} '%07d', $$; print {$_[0]} 'x' x 65536 for 1 .. 320 },
    '/later'  => sub { sleep 1; my $all = 0; while (my $got = sysread $_[0], my $x, 65536) { $all += $got } print {$_[0]} $all },
    '/half'   => sub {
        print {$_[0]} 'mine';
        shutdown $_[0], SHUT_WR;
        local $/;
        warn 'and then: ' . readline($_[0]) . "\n";
    },
);
sub {
    my $env = shift;
    my ($do, $io) = ($do{$env->{PATH_INFO}}, $env->{'psgix.io'});
    return [200, [], ["worker $$"]] if !$do;
    return sub { fileno $io; $do->($io) };
};
PSGI

sub request { return "GET $_[0] HTTP/1.1\r\nHost: x\r\n\r\n" }

sub open_to {
    my ($server, $path, $behind) = @_;
    my $client = Howdah::Test::Client->new($server);
    $client->write(request($path) . ($behind // ''));
    return $client;
}

# Without a word, as one whose machine is gone and has come back.
sub vanish {
    my $socket = shift->socket;
    setsockopt $socket, SOL_SOCKET, SO_LINGER, pack 'ii', 1, 0 or die $!;
    return $socket->isa('IO::Socket::SSL') ? $socket->close(SSL_no_shutdown => 1) : close $socket;
}

sub start { return Howdah::Test::Server->start(app => $app, options => ['--workers', 2, '--max-upgrades', 2, @_]) }

sub everything {
    my $server = start('--request-timeout', '1s');

    Howdah::Test::Client->ask($server, request('/'));    # what comes with the first connection is not gone with it
    my $open = $server->descriptors;

    for my $path ('/mine', '/exit', '/die', '/close') {
        my $client = open_to($server, $path, 'unread');
        is $client->rest, 'mine', "$path: what the application has said arrives, and then the end";
        ok $server->wait_until(sub { $server->workers == 2 }), '... and there are workers';
    }

    subtest 'a client that leaves' => sub {
        for my $how ('in order', 'without a word') {
            my $client = open_to($server, '/lines', "early\n");
            my ($pid) = ($client->take(14) // '') =~ /^(\d+) /;
            sleep 1.5;
            $client->write("later\n");
            like $client->take(8), qr/^\d+ $/, 'the time for requests is none of its';
            $how eq 'in order' ? $client->shut : vanish($client);
            ok $server->wait_for_log(qr/the client of $pid has left/), "$how: the application hears of it";
            ok $client->is_closed, '... and ends' if $how eq 'in order' && $client->rest =~ /later/;
        }
        is(Howdah::Test::Client->ask($server, request('/'))->{status}, 200, 'the workers are free');
    };

    subtest 'the application ends its side alone' => sub {
        my $client = open_to($server, '/half');
        is $client->take(4), 'mine', 'the client has what came before';
        ok $client->is_closed, 'and the end';
        $client->write('words behind');
        $client->shut;
        ok $server->wait_for_log(qr/and then: words behind/), 'it reads on';
    };

    subtest 'a client that reads slowly' => sub {
        my $before = $server->memory;
        my $client = open_to($server, '/flood');
        sleep 1;
        cmp_ok $server->memory - $before, '<', 8192, 'costs no memory';
        is length $client->rest, 320 * 65536, 'and has all';
    };

    subtest 'an application that reads slowly' => sub {
        my $before = $server->memory;
        my $client = open_to($server, '/later');
        $client->write('x' x 20_000_000);
        cmp_ok $server->memory - $before, '<', 8192, 'costs no memory';
        $client->shut;
        is $client->rest, 20_000_000, 'and has all';
    };

    ok $server->wait_until(sub { $server->descriptors <= $open }, 10), 'no descriptor is left behind'
        or diag $server->descriptors . " of $open";
    is $server->stop, 0, 'it stops';
    return;
}

sub left_behind {
    my $server = start('--write-timeout', '1s', '--min-send-rate', 0);
    my $client = open_to($server, '/left');
    my $pid    = $client->take(7);
    my $open   = $server->descriptors;
    sleep 2.5;
    is $server->descriptors, $open, 'a client that takes nothing is waited for while the application is there';
    kill KILL => $pid;
    ok $server->wait_until(sub { $server->descriptors < $open }, 20),
        '... and no longer'
        or diag $server->descriptors . " of $open";
    is $server->stop, 0, 'it stops';
    return;
}

Howdah::Test::Tls::either_way(sub { subtest everything => \&everything; subtest 'left behind' => \&left_behind });

done_testing;
