# --cgi with mode=exec beside other features: pipelining, a full queue, --abort-on-disconnect, --user, more and fewer workers,
# an upgrade, the access log, descriptors and signals that a script inherits.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Operator;
use Howdah::Test::Scripts;
use Test::More;

my $head    = qq{printf 'Content-Type: text/plain\\n\\n'\n};
my $scripts = Howdah::Test::Scripts->new(
    'echo.cgi'  => qq{$head printf '%s ' "\$QUERY_STRING"; cat\n},
    'wait.cgi'  => qq{$head while [ ! -e go ]; do sleep 0.05; done; echo went\n},
    'stays.cgi' => qq{echo \$\$ > stays.pid; exec sleep 600\n},
    'who.cgi'   => qq{$head id -u; id -g; id -G\n},
    'named.cgi' => qq{$head cat /dev/stdin | wc -c\n},
    'self.pl'   => <<"PERL",
#!$^X
open my \$status, '<', '/proc/self/status' or die;
my %is = map { /^(\\w+):\\s+(\\S+)/ } <\$status>;
close \$status;
my \@open = sort { \$a <=> \$b } grep { -e "/proc/self/fd/\$_" } map { m{(\\d+)\\z} } glob '/proc/self/fd/*';
print "Content-Type: text/plain\\n\\n", join ' ', "\@open", \@is{qw(SigBlk SigCgt)}, hex(\$is{SigIgn}) & 0x1000, getpgrp == \$\$, "\\n";
PERL
);

subtest 'requests in a row on one connection' => sub {
    my $server = $scripts->serve('exec', ['workers=3']);
    my $client = Howdah::Test::Client->new($server);
    $client->write(join '', map { "POST /c/echo.cgi?$_ HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nab$_" } 1 .. 5);
    is $client->response->{body}, "$_ ab$_", "response $_" for 1 .. 5;
    is $scripts->get($server, 'self.pl')->{body}, "0 1 2 0000000000000000 0000000000000000 0 1 \n",
        'a script has its three descriptors, no signals of ours, and a group of its own';
};

subtest 'a full queue' => sub {
    my $server  = $scripts->serve('exec', ['workers=1', 'max-queue=1']);
    my @clients = map { Howdah::Test::Client->new($server) } 1 .. 3;
    for my $client (@clients) {
        $client->write("GET /c/wait.cgi HTTP/1.1\r\nHost: x\r\n\r\n");
        select undef, undef, undef, 0.3;
    }
    is $clients[2]->response->{status}, 503, 'is said at once';
    $scripts->write('go', '');
    is $clients[$_]->response->{body}, "went\n", '... and those before it are served' for 0, 1;
};

subtest '--abort-on-disconnect' => sub {
    my $server = $scripts->serve('exec', ['workers=2'], '--abort-on-disconnect');
    my $client = Howdah::Test::Client->asking($server, '/c/stays.cgi');
    ok $server->wait_until(sub { ($scripts->read('stays.pid') // '') =~ /\n/ });
    my $pid = $scripts->read('stays.pid') + 0;
    close $client->socket;
    ok $server->wait_until(sub { !kill 0, $pid }), 'a script that says nothing ends when its client leaves';
};

subtest 'another user' => sub {
    plan skip_all => 'only root can become somebody else' if $> != 0 || !defined getpwnam 'nobody';
    my ($uid, $gid) = (getpwnam 'nobody')[2, 3];
    my $mask   = umask 077;
    my $server = $scripts->serve('exec', ['workers=2'], '--user', 'nobody');
    umask $mask;
    for my $length (1000, 100_000, 3_000_000) {
        my $head = "POST /c/named.cgi HTTP/1.1\r\nHost: x\r\nContent-Length: $length\r\n\r\n";
        my $body = 'x' x $length;
        is + Howdah::Test::Client->ask($server, "$head$body")->{body}, "$length\n",
            "they can open a body of $length bytes by name, whatever the umask";
    }
    is $scripts->get($server, 'who.cgi')->{body}, "$uid\n$gid\n$gid\n", 'scripts run as that';
    my $wrong = Howdah::Test::Server->launch(options => [$scripts->option('exec'), '--user', 'no-such-user']);
    isnt $wrong->wait_for_exit, 0, 'one that there is not fails the start';
    like $wrong->log, qr/there is no user 'no-such-user'/, '... and is named';
};

subtest 'an operator' => sub {
    my $operator = Howdah::Test::Operator->new;
    my $log      = $operator->dir . '/access';
    my @format   = ('--access-log', $log, '--access-log-format', '%>s %{SCRIPT_FILENAME}e %{HOWDAH_CGI_MODE}e');
    my $server   = $scripts->serve('exec', ['workers=2'], $operator->options, @format);
    is $scripts->get($server, 'echo.cgi?a')->{body}, 'a ';
    my $line = '200 ' . $scripts->dir . "/echo.cgi exec\n";
    ok $server->wait_until(sub { open my $in, '<', $log or return; (readline($in) // '') eq $line }),
        'the access log has script and mode';
    my ($host) = $server->processes('cgi-host');
    is_deeply [map { $_->{pid} } @{$operator->status->{pools}[0]{workers}{list}}], [$host, $host],
        'workers are the host';
    open my $comm, '<', "/proc/$host/comm" or die $!;
    is readline($comm), "howdah\n", 'which is called as the program is';

    my $client = Howdah::Test::Client->new($server);
    unlink $scripts->dir . '/stays.pid';
    $client->write("GET /c/stays.cgi HTTP/1.1\r\nHost: x\r\n\r\n");
    ok $server->wait_until(sub { ($scripts->read('stays.pid') // '') =~ /\n/ });
    my ($busy) = grep { $_->{state} eq 'busy' } @{$operator->status->{pools}[0]{workers}{list}};
    is_deeply [$busy->{pid}, $busy->{request}{target}], [$scripts->read('stays.pid') + 0, '/c/stays.cgi'],
        '... a busy one is the script that it runs';
    kill KILL => $busy->{pid};
    is $client->response->{status}, 502, 'a script that is killed before it says anything';

    for my $count (5, 1) {
        is + ($operator->ask('workers', $count))[0], 0, "$count workers";
        ok $server->wait_until(sub { @{$operator->status->{pools}[0]{workers}{list}} == $count }), '... are there';
        is $scripts->get($server, 'echo.cgi?b')->{body}, 'b ';
    }
    is + ($operator->ask('upgrade'))[0], 0, 'an upgrade';
    is $scripts->get($server, 'echo.cgi?c')->{body}, 'c ', '... has a host of its own';
    is + ($operator->ask('stop'))[0], 0, 'a stop';
};

done_testing;
