# A user or container that may have no more processes and threads (prlimit --nproc, pids.max): a server that cannot start
# says so and ends, and one that could lives on, whatever it is asked.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Command qw(howdah_bin run_command);
use Howdah::Test::Operator;
use Howdah::Test::Server;
use POSIX ();
use Test::More;

plan skip_all => 'only root can become somebody else, who has a limit' if $> != 0;
for my $tool (qw(setpriv prlimit)) {
    plan skip_all => "there is no $tool" if !grep { -x "$_/$tool" } split /:/, $ENV{PATH};
}
my $APP = 'sub { [200, [], ["served"]] }';

# Each try has a user of its own: what another left behind must not count.
my $user = 500_000 + 20 * ($$ % 10_000);

sub limited {
    my $limit = shift;
    $user++;
    return ('setpriv', "--reuid=$user", "--regid=$user", '--clear-groups', 'prlimit', "--nproc=$limit", howdah_bin());
}
my @probe = (limited(100), '--version');
plan skip_all => 'others cannot reach the checkout' if (run_command(@probe))[0];

# Readable by that user, whatever the umask.
sub start {
    my ($limit, $operator, $workers) = @_;
    chmod 0777, $operator->dir or die $!;
    my @options = ('--listen', '127.0.0.1:0', '--workers', $workers // 1, $operator->options, '-e', $APP);
    return Howdah::Test::Server->launch(command => [limited($limit)], options => \@options);
}

# What it takes to start differs from start to start, by processes that are on their way out; so the first that serves is
# the one that is asked.
my ($limit, $operator, $server) = (0);
while (++$limit < 20) {
    $operator = Howdah::Test::Operator->new;
    $server   = start($limit, $operator);
    last if $server->wait_for_log(qr/serving .* on /);
    is $server->wait_for_exit, 1, "with a limit of $limit it ends";
    my $told = $server->log;
    like $told, qr/^howdah: .+/m, '... and tells why';
    unlike $told, qr/panicked/, '... by itself';
    like $told, qr/ulimit -u/, '... and what to raise' if $limit <= 3;
}

subtest "with as few threads as it can start with, $limit" => sub {
    like $server->log, qr/serving .* on /, 'it serves';
    for my $command ('status', 'reopen', 'reload') {
        my ($status, $out, $err) = $operator->ask($command);
        isnt "$out$err", '', "$command is answered";
        is(Howdah::Test::Client->ask($server, "GET / HTTP/1.0\r\n\r\n")->{body}, 'served', '... and it serves');
    }
    is $operator->status->{server}{pid}, $server->pid, 'still the same';
    unlike $server->log, qr/panicked/;
    is $server->stop, 0;
};

subtest 'more workers than there may be processes' => sub {
    my $operator = Howdah::Test::Operator->new;
    my $server   = start($limit + 10, $operator, 40);
    ok $server->wait_for_log(qr/cannot fork worker \d+: [^;]+; .*ulimit -u.*pids\.max/), 'are told with what to raise';
};

subtest 'an upgrade or a reload for which there are no processes' => sub {
    my $operator = Howdah::Test::Operator->new;
    my $server   = start(200, $operator);
    ok $server->wait_for_log(qr/serving .* on /), 'it serves';
    my @own  = ('setpriv', "--reuid=$user", "--regid=$user", '--clear-groups');
    my $runs = () = `ps -L -U $user -o lwp=` =~ /\d+/g;
    for my $more (0, 1) {
        my $soft = '--nproc=' . ($runs + $more) . ':';
        system @own, 'prlimit', '--pid', $_, $soft for split ' ', `ps -U $user -o pid=`;
        my ($status, undef, $error) = $operator->ask('upgrade');
        is $status, 1, "with room for $more it fails";
        like $error, qr/no upgrade, process \d+ goes on: cannot [^;]+; .*ulimit -u.*pids\.max/,
            '... and tells what to raise';
        next if $more;
        ($status, undef, $error) = $operator->ask('reload');
        is $status, 1, 'so does a reload';
        like $error, qr/the old one goes on: cannot start a zygote: [^;]+; .*ulimit -u.*pids\.max/,
            '... and tells that, too';
    }
    is(Howdah::Test::Client->ask($server, "GET / HTTP/1.0\r\n\r\n")->{body}, 'served', 'it serves on');
};

subtest 'a command that needs a thread' => sub {
    my $operator = Howdah::Test::Operator->new;
    my $server   = start(200, $operator);
    ok $server->wait_for_log(qr/serving .* on /), 'the server has all it needs';
    my @command = ('setpriv', "--reuid=$user", "--regid=$user", '--clear-groups', 'prlimit', '--nproc=1', howdah_bin());
    my $output  = $operator->dir . '/profile';
    my ($status, undef, $error) =
        run_command(@command, 'profile', '--seconds', 1, '--output', $output, '--control', $operator->control);
    is $status, 1, 'it fails';
    like $error, qr/^howdah: cannot start a thread: [^;]+; .*ulimit -u.*pids\.max/, '... and tells what to raise';
    unlike $error, qr/panicked/, '... by itself';
    is_deeply [glob "$output*"], [], '... and leaves no files';
};

# The kernel executes nothing for a user who has as many processes as he may have.
subtest 'a perl for a user who may have no more processes' => sub {
    $user++;
    my @as    = ('--user', $user, '--group', $user, '-e', $APP);
    my $other = fork // die $!;
    if (!$other) { $( = $user; $) = "$user $user"; $< = $> = $user; sleep 100; POSIX::_exit(0) }
    my $end = time + 30;
    sleep 1 while time < $end && !`ps -U $user -o pid=`;
    for my $command (['check'], ['--listen', '127.0.0.1:0']) {
        my ($status, undef, $error) = run_command('prlimit', '--nproc=0', howdah_bin(), @$command, @as);
        is $status, 1, "@$command fails";
        like $error, qr/cannot run \S+ as --user or --group says: [^;]+; .*ulimit -u.*pids\.max/,
            '... and tells what to raise';
    }
    kill KILL => $other;
    waitpid $other, 0;
};

done_testing;
