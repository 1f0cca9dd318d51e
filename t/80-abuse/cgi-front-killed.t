# The front is killed, or the host has no descriptor left: scripts do not outlive the one, and the other answers and recovers.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Descriptors qw(can_limit limit_files);
use Howdah::Test::Scripts;
use Test::More;

my $scripts = Howdah::Test::Scripts->new(
    'stays.cgi' => qq{echo \$\$ > "\$QUERY_STRING.pid"; exec sleep 600\n},
    'deaf.cgi'  => qq{trap '' TERM\necho \$\$ > "\$QUERY_STRING.pid"; while :; do sleep 1; done\n},
    'well.cgi'  => qq{printf 'Content-Type: text/plain\\n\\nwell'\n},
);

sub begin {
    my ($server, $name, $query) = @_;
    my $client = Howdah::Test::Client->asking($server, "/c/$name?$query");
    $server->wait_until(sub { ($scripts->read("$query.pid") // '') =~ /\n/ }) or return $client;
    return ($client, $scripts->read("$query.pid") + 0);
}

subtest 'the front is killed' => sub {
    my $server = $scripts->serve('exec', ['workers=4']);
    my (undef, $one) = begin($server, 'stays.cgi', 'one');
    my (undef, $two) = begin($server, 'deaf.cgi', 'two');
    my ($host) = $server->processes('cgi-host');
    $server->signal('KILL');
    $server->wait_for_exit;
    for my $case ([$one, 'a script'], [$two, 'one that is deaf to TERM'], [$host, 'the host']) {
        my ($pid, $what) = @$case;
        ok $server->wait_until(sub { !kill(0, $pid) || is_zombie($pid) }), "$what ends";
    }
};

# As many as one script needs, which is found by trying: then there are too few while others run.
subtest 'no descriptor is left' => sub {
    plan skip_all => 'no prlimit (util-linux)' if !can_limit();
    my $server = $scripts->serve('exec', ['workers=8']);
    my ($host) = $server->processes('cgi-host');
    my $limit  = () = glob "/proc/$host/fd/*";
    my $status = sub { $scripts->get($server, 'well.cgi')->{status} };
    do { limit_files($host, ++$limit . ':') } until $status->() == 200 || $limit > 100;
    my ($then, @begun);
    for my $number (1 .. 6) {
        push @begun, grep { defined } (begin($server, 'stays.cgi', "full$number"))[1];
        last if ($then = $status->()) != 200;
    }
    like $then, qr/^50[03]$/, 'a script that cannot be run is refused';
    ok $server->wait_for_log(qr/Too many open files/i, 10), '... and the log says why' or diag $server->log;
    kill KILL => @begun;
    ok $server->wait_until(sub { $status->() == 200 }), 'then scripts are run again';
    is $server->stop, 0;
};

sub is_zombie {
    open my $in, '<', "/proc/$_[0]/stat" or return 1;
    return (scalar(<$in>) // '') =~ /\) Z /;
}

done_testing;
