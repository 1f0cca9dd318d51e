# kill -9 of the front under load: every response that came was right and whole, each connection loses the one request
# that was under way, and of the server no process stays behind.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Load;
use Howdah::Test::Process qw(descendants);
use Howdah::Test::Server;
use Test::More;

# Kills the front; whoever of the server has not ended by itself is what stays behind.
sub kill_front {
    my $server = shift;
    my @family = descendants(2, $server->pid);
    cmp_ok scalar @family, '>=', 2, 'launcher and zygote at least; workers come and go';
    $server->signal('KILL');
    is $server->wait_for_exit, 'signal 9';
    my @left;
    ok $server->wait_until(sub {
        !(@left = grep { kill 0, $_ } @family);
        }),
        'no process stays behind';
    kill KILL => @left;
    return;
}

for my $options (['--workers', 3], ['--workers', 2, '--front-threads', 2, '--spread-connections', '--max-requests', 20])
{
    my $server = Howdah::Test::Server->start(file => 't/apps/load.psgi', options => $options);
    my $load   = Howdah::Test::Load->start($server, connections => 8, reopen   => 0);
    my $other  = Howdah::Test::Load->start($server, connections => 2, requests => 300);
    is_deeply $other->finish->{problems}, [], "it serves with @$options";

    kill_front($server);

    my $result = $load->finish;
    my @cut    = grep { /^connection ended after/ } @{$result->{problems}};
    is scalar(@cut), scalar @{$result->{problems}}, 'no response was wrong' or diag explain $result->{problems};
    cmp_ok @cut + ($result->{status}{cut} // 0), '<=', 8, 'at most one request for each connection was lost';
    is_deeply [grep { !/^(?:200|cut)$/ } keys %{$result->{status}}], [], "$result->{requests} were answered";
}

subtest 'an application that hangs while it is loaded' => sub {
    my $server =
        Howdah::Test::Server->launch(app => '$SIG{TERM} = "IGNORE"; print STDERR "it hangs\n"; sleep 600 while 1');
    ok $server->wait_for_log(qr/it hangs/);
    kill_front($server);
};

subtest 'a worker that hangs' => sub {
    my $server = Howdah::Test::Server->start(
        options => ['--workers', 1],
        app     => 'sub { print STDERR "it hangs\n"; sleep 600 while 1 }',
    );
    my $client = Howdah::Test::Client->asking($server, '/');
    ok $server->wait_for_log(qr/it hangs/);
    kill_front($server);
};

done_testing;
