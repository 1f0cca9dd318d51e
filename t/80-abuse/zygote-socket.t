# An application that, while it is loaded, has others keep the zygote's socket to the front open, or closes it: a zygote that dies
# is replaced all the same, a reload and a stop come to their end, and a start that cannot succeed says why.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Operator;
use Howdah::Test::Server;
use Test::More;
use Time::HiRes qw(time);

# The helper stays as long as the test does, and has all that the zygote has.
my $helper = <<'PSGI';
my $tester = $ENV{TESTER};
if (!(fork // die $!)) {
    $SIG{$_} = 'DEFAULT' for qw(TERM INT);
    $0 = 'helper of the application';
    sleep 1 while kill 0, $tester;
    exit;
}
PSGI
my $app = 'sub { [200, [], [$$]] };';

sub start {
    my ($code, $operator) = @_;
    my @options = ('--workers', 2, $operator->options);
    return Howdah::Test::Server->start(app => $code, options => \@options, env => {TESTER => $$});
}

subtest 'a process of the application outlives the zygote' => sub {
    my $operator = Howdah::Test::Operator->new;
    my $server   = start($helper . $app, $operator);
    my ($zygote) = $server->processes('zygote');
    my @workers  = $server->workers;
    kill KILL => $zygote, $workers[0];
    my $next = sub { my $now = $operator->status->{pools}[0]{zygote}; $now && $now != $zygote };
    ok $server->wait_until($next, 15), 'a zygote that is killed is replaced';
    my $fresh = sub {
        my %is = map { $_ => 1 } my @now = $server->workers;
        return @now == 2 && !grep { $is{$_} } @workers;
    };
    ok $server->wait_until($fresh, 15), '... with its workers';
    is + ($operator->ask('reload'))[0], 0, 'a reload succeeds';
    my $alone = sub { 1 == $server->processes('zygote') };
    ok $server->wait_until($alone, 15), '... and the zygote of before is gone';
    my $start = time;
    $server->signal('TERM');
    is $server->wait_for_exit(15), 0, 'the server stops';
    cmp_ok time - $start, '<', 5, '... in time';
};

subtest 'the application does not load, and a process of it stays' => sub {
    my $server = Howdah::Test::Server->launch(app => $helper . 'exit 3;', options => [], env => {TESTER => $$});
    is $server->wait_for_exit(15), 1, 'the start fails';
    like $server->log, qr/perl ended while it loaded the application \(exit status 3\)/, '... with the reason';
};

subtest 'the application closes what it does not know' => sub {
    my $closing = 'use POSIX (); POSIX::close($_) for 3 .. 1023; ';
    my $server  = Howdah::Test::Server->launch(app => $closing . $app);
    is $server->wait_for_exit(15), 1, 'the start fails';
    like $server->log, qr/the application has closed descriptor 3, by which the front starts workers.*--daemonize/,
        '... with the reason';
    is $server->log =~ /the application is loaded/, '', '... and nothing else is claimed';
    my $failing = Howdah::Test::Server->launch(app => $closing . 'die "of something else\n"');
    is $failing->wait_for_exit(15), 1, 'so does one that dies of it';
    like $failing->log, qr/has closed descriptor 3/;
};

subtest 'a hook closes what it does not know, once the application is loaded, and takes its time' => sub {
    my $hook = 'use Howdah; use POSIX (); my $forks;'
        . 'Howdah->before_fork(sub { return if $forks++ < 1; POSIX::close($_) for 3 .. 1023; sleep 600 }); ';
    my $server = Howdah::Test::Server->start(app => $hook . $app, options => ['--workers', 1]);
    my ($zygote) = $server->processes('zygote');
    kill KILL => $server->workers;
    ok $server->wait_for_log(
        qr/ERROR .* the zygote goes on without its control socket, and is killed: .*hook.* pid=$zygote$/m),
        'it is killed, and the log tells why';
    unlike $server->log, qr/process that loads/, '... and not that it loads anything';
    $server->stop('INT');
};

# What is opened next has their numbers, and programs that the application runs have it as theirs.
subtest 'the application closes its standard streams while it is loaded' => sub {
    for my $closed ('STDIN', 'STDOUT', 'STDERR', 'STDIN; close STDOUT; close STDERR') {
        my $code = "close $closed; " . <<'PSGI';
sub {
    die "on purpose\n" if $_[0]{PATH_INFO} eq '/dies';
    system 'ls /nonesuch';
    return [200, [], [join ' ', map { readlink "/proc/$$/fd/$_" } 0 .. 2]];
};
PSGI
        my $server = Howdah::Test::Server->start(app => $code, options => ['--workers', 1]);
        my $get    = sub {
            Howdah::Test::Client->ask($server, "GET $_[0] HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        };
        unlike $get->('/')->{body}, qr/socket|anon_inode|proc/, "nothing of the server's is in the place of $closed";
        is $get->('/dies')->{status}, 500;
        ok $server->wait_for_log(qr{GET /dies: the application failed: on purpose$}m),
            '... and the log has why one died';
        unlike $server->log, qr/makes no sense/, '... and nothing that others have said to the front';
        is $server->stop, 0;
    }
};

subtest 'the application talks nonsense there' => sub {
    my $talking = 'open my $front, "+<&", 3 or die $!; send $front, "nonsense", 0 for 1 .. 100; ' . $app;
    my $server  = Howdah::Test::Server->start(app => $talking, options => ['--workers', 1]);
    ok $server->wait_for_log(qr/something that makes no sense .*times=64$/m), 'which is told' or diag $server->log;
    my $told = () = $server->log =~ /makes no sense/g;
    is $told, 7, '... ever less often';
    is $server->stop, 0;
};

done_testing;
