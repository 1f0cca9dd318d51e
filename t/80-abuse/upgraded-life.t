# Connections that an application has taken outlive their request, where a process of the application's has them, a reload,
# and an upgrade; a stop gives them --graceful-timeout.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Operator;
use Howdah::Test::Server;
use Howdah::Test::Tls;
use Test::More;
use Time::HiRes qw(time);

my $app = <<'PSGI';
sub lines { my $io = shift; while (defined(my $line = <$io>)) { print {$io} "${\getppid} $line" } }
my %do = (
    '/lines' => \&lines,
    '/child' => sub {
        my $pid = fork // die $!;
        return if $pid;
        lines(@_);
        require POSIX;
        POSIX::_exit(0);
    },
);
sub {
    my $env = shift;
    my ($do, $io) = ($do{$env->{PATH_INFO}}, $env->{'psgix.io'});
    return $do ? sub { fileno $io; $do->($io) } : [200, [], ['ok']];
};
PSGI

sub request { return "GET $_[0] HTTP/1.1\r\nHost: x\r\n\r\n" }

# A connection on which an application echoes.
sub lines {
    my ($server, $path) = @_;
    my $client = Howdah::Test::Client->new($server);
    $client->write(request($path));
    ok echoes($client, 'one'), "$path: there is one";
    return $client;
}

sub echoes {
    my ($client, $word) = @_;
    $client->write("$word\n");
    return $client->line =~ /^\d+ $word$/;
}

# The end of the client's side is that of the connection.
sub ends {
    my $client = shift;
    $client->shut;
    return ok $client->is_closed, 'to its end';
}

sub start { return Howdah::Test::Server->start(app => $app, options => ['--workers', 2, '--max-upgrades', 2, @_]) }

sub everything {
    my $server = start();
    my $client = lines($server, '/child');
    is scalar(grep { Howdah::Test::Client->ask($server, request('/'))->{status} == 200 } 1 .. 4), 4, 'workers are free';
    ok echoes($client, 'two'), 'and it goes on';
    ends($client);

    $client = lines($server, '/lines');
    $server->signal('HUP');
    ok $server->wait_for_log(qr/requests go to the new generation/), 'a reload';
    is(Howdah::Test::Client->ask($server, request('/'))->{status}, 200, 'others are served');
    ok echoes($client, 'two'), 'and it goes on';
    ends($client);
    is $server->stop, 0, 'it stops';

    for my $path ('/lines', '/child') {
        $server = start('--graceful-timeout', '1s');
        $client = lines($server, $path);
        my $begin = time;
        is $server->stop, 0, 'a stop';
        cmp_ok time - $begin, '<', 15, 'gives it its time and no more';
    }

    my $operator = Howdah::Test::Operator->new;
    $server = start($operator->options);
    $client = lines($server, '/lines');
    my $old = $operator->pid;
    my ($status, undef, $err) = $operator->ask('upgrade');
    is $status, 0, 'an upgrade' or diag $err;
    isnt $operator->pid, $old, 'another process serves';
    is(Howdah::Test::Client->ask($server, request('/'))->{status}, 200, 'others are served');
    ok echoes($client, 'two'), 'and it goes on';
    ends($client);
    ok $operator->wait_for_end($old), 'then the old process leaves';
    return;
}

Howdah::Test::Tls::either_way(\&everything);

done_testing;
