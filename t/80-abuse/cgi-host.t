# The host of CGI scripts under load: killed, stopped, reloaded and told to end. Requests that run when it dies are answered
# 502, those that wait are not lost, no script outlives it, and thousands of requests leave no process and no descriptor.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Load;
use Howdah::Test::Operator;
use Howdah::Test::Scripts;
use Test::More;
use Time::HiRes qw(sleep time);

my $head    = qq{printf 'Content-Type: text/plain\\n\\n'\n};
my $scripts = Howdah::Test::Scripts->new(
    'load.cgi'  => qq{$head printf '%s %d' "\${PATH_INFO#/}" "\$(wc -c)"\n},
    'sleep.cgi' => qq{echo \$\$ > "\$QUERY_STRING.pid"\nexec sleep 600\n},
);
my $operator = Howdah::Test::Operator->new;
my $server   = $scripts->serve('exec', ['workers=4', 'request-timeout=3s'], $operator->options);
my @load     = map { load(fresh => $_) } 0, 1;

sub load { return Howdah::Test::Load->start($server, connections => 4, below => '/c/load.cgi', @_) }

# Not a child of it that is about to execute a script, or has done so meanwhile and is gone.
sub host {
    my %is = map { $_ => 1 } my @all = $server->processes('cgi-host');
    my %by = map { $_ => parent($_) } @all;
    return (grep { $by{$_} && !$is{$by{$_}} } @all)[-1];
}

sub parent {
    my $pid = shift;
    open my $in, '<', "/proc/$pid/stat" or return 0;
    return (split ' ', (<$in> // '') =~ s/.*\)//sr)[1] // 0;
}

# Begins a request that stays: the client, and the process of its script.
sub sleeper {
    my $name   = shift;
    my $client = Howdah::Test::Client->asking($server, "/c/sleep.cgi?$name");
    $server->wait_until(sub { ($scripts->read("$name.pid") // '') =~ /\n/ });
    return ($client, $scripts->read("$name.pid") + 0);
}

for my $round (1 .. 3) {
    my ($client, $script) = sleeper("killed$round");
    my $host = host();
    kill KILL => $host or die "cannot kill the host $host: $!";
    is $client->response->{status}, 502, "round $round: the host is killed, and what runs is answered 502";
    ok $server->wait_until(sub { !kill 0, $script }), '... no script outlives it';
    ok $server->wait_until(sub { my $next = host(); $next && $next != $host }), '... another one comes';
}
ok $server->wait_for_log(qr/the host of scripts died \(signal KILL\)/), 'the log says so';
unlike $server->log, qr/worker died/, '... and once, not for each worker';

subtest 'a host that is stopped' => sub {
    my ($client, $script) = sleeper('stopped');
    my $host = host();
    kill STOP => $host;
    is $client->response->{status}, 504, 'a request that runs is overdue';
    ok $server->wait_until(sub { !kill 0, $host }), 'the host, which does not end its script, is killed';
    ok $server->wait_until(sub { !kill 0, $script }), '... with the script';
    is $scripts->get($server, 'load.cgi/1')->{body}, '1 0', '... and another one serves';
};

for my $round (1 .. 3) {
    my $host = host();
    is + ($operator->ask('reload'))[0], 0, "a reload under load, $round";
    ok $server->wait_until(sub { !kill 0, $host }), '... ends the host when its scripts have';
}
my %status;
for my $result (map { $_->stop->finish } @load) {
    is_deeply $result->{problems}, [];
    $status{$_} += $result->{status}{$_} for keys %{$result->{status}};
}
cmp_ok delete $status{200}, '>', 50, 'requests were answered';
cmp_ok + (delete $status{502} // 0) + (delete $status{cut} // 0), '<=', 4 * 4,
    '... but for those that ran when a host died, or was killed';
cmp_ok delete $status{504} // 0, '<=', 8, '... or was stopped';
is_deeply \%status, {}, '... and none otherwise';

subtest 'thousands of requests' => sub {
    my ($host, @before) = (host(), descriptors());
    my $load   = load(connections => 8, requests => 3000, seconds => 100);
    my $result = $load->finish;
    is_deeply $result->{problems}, [];
    is $result->{requests}, 3000;
    is host(), $host, 'are served by the same host';
    ok $server->wait_until(sub { "@{[descriptors()]}" eq "@before" }), '... and leave no descriptor'
        or diag "@before, and now @{[descriptors()]}";
    ok $server->wait_until(sub { !children($host) }), '... and no process' or diag join ' ', children($host);
};

my ($client) = sleeper('last');
my $load = load(reopen => 0, rests => 0.25);
sleep 0.5;
my $start = time;
is $server->stop, 0, 'a stop under load';
cmp_ok time - $start, '<', 20, '... takes its time for what runs, and no more';
is $client->response->{status}, 504, '... which is overdue';
is_deeply $load->finish->{problems}, [], '... and loses nothing';

# Of the host and of the front.
sub descriptors {
    return map { scalar(() = glob "/proc/$_/fd/*") } host(), $server->pid;
}

sub children {
    my $pid = shift;
    return grep { (stat_of($_))[1] == $pid } map { m{(\d+)} } glob '/proc/[0-9]*';
}

sub stat_of {
    open my $in, '<', "/proc/$_[0]/stat" or return ('', 0);
    return (<$in> // '') =~ /\) (\S) (\d+)/;
}

done_testing;
