# The launchers, which start processes for the confined front, are killed. One alone is replaced by the other. Without any
# the server says so and serves on, as long as it can: once the zygote is dead, too, it ends with a failure, so that whoever
# manages it starts it anew.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Command qw(howdah_bin run_command);
use Howdah::Test::Operator;
use Howdah::Test::Server;
use IO::Select ();
use POSIX ();
use Socket qw(AF_UNIX SOCK_SEQPACKET);
use Test::More;
use Time::HiRes qw(time);

my $APP = 'sub { select undef, undef, undef, $1 if $_[0]{PATH_INFO} =~ m{^/slow/([\d.]+)}; [200, [], [$$]] }';
my $GET = "GET / HTTP/1.0\r\n\r\n";

sub start {
    my $operator = Howdah::Test::Operator->new;
    my @options  = ('--workers', 2, '--max-memory', '1g', $operator->options);
    return ($operator, Howdah::Test::Server->start(app => $APP, options => \@options));
}

# All at once: one that is left would have another beside it within a millisecond.
sub kill_launchers {
    my @launchers = shift->launchers;
    kill $_ => @launchers for qw(STOP KILL);
    return;
}

# The command's exit status and what it says, when it says so at once: nothing is waited for.
sub at_once {
    my ($operator, @command) = @_;
    my $start = time;
    my ($status, undef, $err) = $operator->ask(@command);
    cmp_ok time - $start, '<', 4, "@command: an answer at once";
    return "$status $err";
}

subtest 'one of them: the other takes its place, again and again' => sub {
    my ($operator, $server) = start();
    my %before = map { $_ => 1 } $server->launchers;
    is scalar(keys %before), 2, 'there are two';
    for my $round (1 .. 3) {
        my ($victim) = $server->launchers;
        kill KILL => $victim;
        ok $server->wait_until(sub {
            $server->launchers == 2 && !grep { $_ == $victim } $server->launchers;
            }),
            "round $round: there are two again";
        is + ($operator->ask('reload'))[0], 0, '... and a reload works';
    }
    ok !(grep { $before{$_} } $server->launchers), 'none is from the start';
    ok $server->wait_for_log(qr/WARN.* a launcher has ended/), 'the log tells';
    is $operator->status->{trouble}, undef, 'no trouble';
    my $old = $operator->pid;
    is + ($operator->ask('upgrade'))[0], 0, 'an upgrade, too';
    ok $operator->wait_for_end($old);
    is(Howdah::Test::Client->ask($server->port, $GET)->{status}, 200);
    is + ($operator->ask('stop'))[0], 0;
};

subtest 'both: whoever needs them is told at once; then the zygote: a failure, when every request is answered' => sub {
    my ($operator, $server) = start();
    my ($zygote) = $server->processes('zygote');
    kill_launchers($server);
    ok $server->wait_for_log(
        qr/ERROR.* no launcher is left: no reload,.* --max-memory replaces nobody; restart howdah/);
    like $operator->status->{trouble}, qr/the launcher, without which .* is gone: restart howdah/, 'the status says so';
    like at_once($operator, $_), qr/^1 .*no launcher is left, .*restart howdah/s for 'reload', 'upgrade';
    my ($victim) = $server->workers;
    kill KILL => $victim;
    ok $server->wait_until(sub {
        $server->workers == 2 && !grep { $_ == $victim } $server->workers;
        }),
        'the zygote forks workers';
    my $client = Howdah::Test::Client->asking($server, '/slow/2');
    $server->wait_until(sub {
        grep { $_->{state} eq 'busy' } @{$operator->status->{workers}{list}};
    });
    kill KILL => $zygote;
    is $client->response->{status}, 200, 'a running request is answered';
    is $server->wait_for_exit, 1, 'exit status';
    like $server->log, qr/the zygote is dead and nothing can start another: ending/;
    ok !-e $_, 'no file stays behind' for $operator->control, $operator->pid_file;
};

subtest 'launchers, zygote and workers: the server does not wait for anybody' => sub {
    my ($operator, $server) = start();
    my $client = Howdah::Test::Client->asking($server, '/slow/60');
    my $start  = time;
    kill_launchers($server);
    kill KILL => $server->processes('zygote'), $server->workers;
    is $server->wait_for_exit, 1, 'exit status';
    cmp_ok time - $start, '<', 20, 'before the graceful timeout';
};

# An emulator that the kernel has execute programs of another machine (binfmt_misc) calls them by their file's name. A launcher that
# does not know itself by another sign is a server, which starts launchers, without end.
subtest 'whoever has lost its name knows what it is' => sub {
    socketpair my $ours, my $theirs, AF_UNIX, SOCK_SEQPACKET, 0 or die $!;
    open my $recipes, '+>', undef or die $!;
    syswrite $recipes, "p/bin/true\0";
    sysseek $recipes, 0, 0;
    my $pid = fork // die $!;
    if (!$pid) {
        my @high = map { POSIX::dup2(fileno $_->[0], $_->[1]) } [$theirs, 103], [$recipes, 104];
        POSIX::dup2($_, $_ - 100) for @high;
        exec {howdah_bin()} 'another', 'launcher' or POSIX::_exit(127);
    }
    close $theirs;
    syswrite $ours, pack 'L Q a', 7, ~0, 'k';
    my $answer = '';
    sysread $ours, $answer, 100 if IO::Select->new($ours)->can_read(60);
    is join(' ', unpack 'L l', $answer), '7 0', 'a launcher answers';
    close $ours;
    waitpid $pid, 0;
    is $?, 0, '... and leaves with the front';

    local $ENV{HOWDAH_CGI_HOST} = 'nonsense';
    my (undef, undef, $error) = run_command(howdah_bin(), 'cgi-host', 'x');
    like $error, qr/^howdah: the host of CGI scripts does not start: /, 'a host of scripts';
};

done_testing;
