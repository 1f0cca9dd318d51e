# --cgi with mode=exec: scripts that take too long, whose client leaves, or that somebody kills. Each ends with its whole process
# group, the log says what happened, and others go on.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Scripts;
use Test::More;
use Time::HiRes qw(time);

# Each notes its process and that of a child in its group.
my $note    = qq{(trap '' TERM; sleep 600) &\necho \$\$ \$! > "\$(basename "\$0").pids"\n};
my $head    = qq{printf 'Content-Type: text/plain\\n\\n'\n};
my $scripts = Howdah::Test::Scripts->new(
    'stuck.cgi'      => "${note}sleep 600\n",
    'deaf.cgi'       => "trap '' TERM\n${note}while :; do sleep 1; done\n",
    'flood.cgi'      => "${note}${head}exec yes\n",
    'flood-deaf.cgi' => "trap '' TERM PIPE\n${note}${head}while :; do echo \$(seq 20000); done\n",
    'orderly.cgi'    => "trap 'exit 0' TERM\n${note}while :; do sleep 0.1; done\n",
    'begun.cgi'      => "${note}${head}echo begun; sleep 600\n",
    'talks.cgi'      => "${note}until [ -e talk ]; do sleep 0.1; done\nseq -f 'word %.0f' 5000 >&2\nexit 1\n",
    'well.cgi'       => "${head}echo well\n",
);
my $server = $scripts->serve('exec', ['workers=4', 'request-timeout=1500ms']);

sub pids_of {
    my $name = shift;
    $server->wait_until(sub { ($scripts->read("$name.pids") // '') =~ /\d+ \d+\n/ }) or return;
    return split ' ', $scripts->read("$name.pids");
}

sub lives {
    return scalar grep { -e "/proc/$_" && !is_zombie($_) } @_;
}

sub is_zombie {
    open my $in, '<', "/proc/$_[0]/stat" or return 1;
    return (scalar(<$in>) // '') =~ /\) Z /;
}

for my $name ('stuck.cgi', 'deaf.cgi') {
    my $start    = time;
    my $response = $scripts->get($server, $name);
    is $response->{status}, 504, "$name takes too long";
    cmp_ok time - $start, '>=', 1.4, '... not before its time';
    my @pids = pids_of($name);
    ok $server->wait_until(sub { !lives(@pids) }), '... and its whole group is killed';
    ok $server->wait_for_log(qr{no answer within --request-timeout: GET /c/\Q$name\E }), '... which the log says'
        or diag $server->log;
}

for my $name ('flood.cgi', 'flood-deaf.cgi') {
    my $client = Howdah::Test::Client->new($server);
    $client->write("GET /c/$name HTTP/1.0\r\n\r\n");
    ok length($client->{input} .= '') || $client->_more(time + 20), "$name answers";
    my @pids = pids_of($name);
    is lives(@pids), 2, '... and runs';
    my $start = time;
    close $client->socket;
    ok $server->wait_until(sub { !lives(@pids) }), '... until its client leaves';
    cmp_ok time - $start, '>=', 2, '... which it had time for' if $name =~ /deaf/;
}

{
    my $client = Howdah::Test::Client->asking($server, '/c/orderly.cgi');
    my @pids   = pids_of('orderly.cgi');
    is $client->response->{status}, 504, 'a script that ends in order when it is told to';
    ok $server->wait_until(sub { !lives(@pids) }), '... ends';
    is $scripts->get($server, 'well.cgi')->{body}, "well\n" for 1 .. 4;
    unlike $server->log, qr{orderly\.cgi: it has ended without}, '... and is not blamed for that';
}

my $client = Howdah::Test::Client->asking($server, '/c/begun.cgi');
my @pids   = pids_of('begun.cgi');
$client->_more(time + 20);
kill KILL => $pids[0];
is $client->response->{error}, 'body cut short', 'the client of a script that is killed sees that there is more';
ok $server->wait_for_log(qr{/begun\.cgi: it ended with signal KILL}), '... and the log says how it ended';
kill KILL => -$pids[0];    # what it has left behind is nobody's

# The host has other things to do meanwhile.
my ($host) = $server->processes('cgi-host');
$client = Howdah::Test::Client->new($server);
$client->write("GET /c/talks.cgi HTTP/1.1\r\nHost: x\r\n\r\n");
@pids = pids_of('talks.cgi');
kill STOP => $host;
$scripts->write('talk', '');
ok $server->wait_until(sub { is_zombie($pids[0]) }), 'a script says much and ends while nobody reads it';
kill CONT => $host;
is $client->response->{status}, 500, '... which is no response';
ok $server->wait_for_log(qr{/talks\.cgi: word 5000$}m), '... and the log has all of it';
kill KILL => -$pids[0];

is $scripts->get($server, 'well.cgi')->{body}, "well\n", 'others go on' for 1 .. 8;
is $server->stop, 0;

done_testing;
