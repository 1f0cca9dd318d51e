# How a worker begins and ends: hooks, exit, harakiri, signals, END blocks.
use strict;
use warnings;
use lib 't/lib';

use File::Temp ();
use Howdah::Test::Client;
use Howdah::Test::Server;
use POSIX qw(SIGHUP SIGINT SIGQUIT SIGTERM SIGUSR1 SIGUSR2);
use Test::More;

my $APP = <<'PSGI';
use Howdah;
srand 1;
Howdah->before_fork(sub { my $seeded = rand; warn "before fork\n" });
Howdah->after_fork(sub { warn "after fork of $_[0]\n"; our $number = rand });
Howdah->worker_exit(sub { warn "exit of $_[0]\n" });
my $loader = $$;
{ package Guard; sub DESTROY { warn "destroyed\n" if $$ != $loader } }
our $guard = bless [], 'Guard';
{ package Tied; sub TIESCALAR { bless [] } sub FETCH { die "no value\n" } }
{ package Mute; use overload bool => sub { die "no truth\n" } }
END { warn "END with $?\n" if $$ != $loader }
my ($heard, @signals) = ('', qw(HUP INT USR1 TERM QUIT));
my %do = (
    ''       => sub { [200, [], [$$]] },
    title    => sub { [200, [], [$0]] },
    rand     => sub { [200, [], [our $number]] },
    exit     => sub { exit 7 },
    behind   => sub { push @{$_[0]{'psgix.cleanup.handlers'}}, sub { exit 9 }; [200, [], [$$]] },
    begun    => sub { sub { my $w = shift->([200, []]); $w->write('begun'); exit 8 } },
    harakiri => sub { my $env = shift; $env->{'psgix.harakiri.commit'} = 1; [200, [], [$$]] },
    cleanup  => sub {
        my $env = shift;
        push @{$env->{'psgix.cleanup.handlers'}}, sub { $_[0]{'psgix.harakiri.commit'} = 1 };
        [200, [], [$$]];
    },
    object   => sub { $_[0]{'psgix.harakiri.commit'} = bless [], 'Mute'; [200, [], [$$]] },
    tied     => sub { tie $_[0]{'psgix.harakiri.commit'}, 'Tied'; [200, [], [$$]] },
    term     => sub { kill TERM => $$; [200, [], ['answered']] },
    signals  => sub { kill $_ => $$ for qw(HUP INT USR1 PIPE); [200, [], [$$]] },
    child    => sub { my $out = `echo from a child`; [200, [], ["$? $out"]] },
    pipe     => sub { open my $in, '-|', "sleep 0.3; kill -USR2 $$; sleep 0.3; echo read"; sysread $in, my $it, 9; [200, [], [$it]] },
    reads    => sub {
        my @read = map { open my $in, '-|', "sleep 0.2; kill -$_ $$; sleep 0.2; echo $_"; sysread $in, my $it, 9; $it // "$!\n" } @signals;
        [200, [], \@read];
    },
    ended    => sub {
        my @ends = map {
            pipe my $in, my $out;
            my $pid = fork // die;
            if (!$pid) { print {$out} "begun\n"; close $out; 1 while sysread $in, my $it, 9; sleep 60; exit 1 }
            kill $_ => $pid;
            waitpid $pid, 0;
            $? . "\n";
        } @signals;
        [200, [], \@ends];
    },
    own      => sub { local $SIG{USR2} = sub { $heard = "heard, and $$ lives" }; kill USR2 => $$; [200, [], [$heard]] },
    ask      => sub { kill USR2 => $$; [200, [], [$$]] },
    forked   => sub { my $pid = fork // die; if (!$pid) { kill USR2 => $$; exit 1 } waitpid $pid, 0; [200, [], [$?]] },
    program  => sub { [200, [], [system $^X, '-e', 'kill USR2 => $$; exit 1']] },
    alarm    => sub { local $SIG{ALRM} = sub { die "alarm\n" }; alarm 1; eval { sleep 5 }; [200, [], [$@]] },
);
sub { my $env = shift; $do{substr $env->{PATH_INFO}, 1}->($env) };
PSGI

sub ask {
    my ($server, $name) = @_;
    return Howdah::Test::Client->ask($server, "GET /$name HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
}

subtest 'with workers that leave by _exit' => sub {
    my $server = Howdah::Test::Server->start(app => $APP, options => ['--workers', 1]);
    ok($server->wait_for_log(qr/before fork.*after fork of 0/s), 'hooks run around the fork');
    like(ask($server, 'title')->{body}, qr{^howdah: worker \[.*app\.psgi\]}, 'the title names the application');
    my $pid = ask($server, '')->{body};
    is(ask($server, 'signals')->{body}, $pid, 'signals that concern the front do nothing');
    is(ask($server, 'child')->{body}, "0 from a child\n", 'children of the application are its own');
    is(ask($server, 'alarm')->{body}, "alarm\n", 'alarms work');

    my %before = map { ask($server, 'rand')->{body} => 1 } 1 .. 2;
    is(ask($server, 'exit')->{status}, 500, 'exit answers 500');
    ok(
        $server->wait_for_log(qr/END with 7\n.*it called exit.*exit of 0/s) && $server->wait_for_log(qr/exit status 7/),
        '... runs END and hooks, status kept'
    );
    my $next = ask($server, '')->{body};
    isnt($next, $pid, '... and another worker serves');
    ok(!$before{ask($server, 'rand')->{body}}, 'whose random numbers differ');
    ok(ask($server, 'begun')->{error}, 'exit in a stream cuts it');

    for my $name (qw(harakiri cleanup object)) {
        my $dying = ask($server, $name)->{body};
        isnt(ask($server, '')->{body}, $dying, "psgix.harakiri.commit ends the worker: $name");
    }
    my $same = ask($server, 'tied')->{body};
    is(ask($server, '')->{body}, $same, 'one that is tied, and dies, does not');
    ok($server->wait_for_log(qr/ERROR.*psgix\.harakiri\.commit failed: no value/), '... and is told as that');
    is(
        ask($server, 'ended')->{body}, join('', map { "$_\n" } SIGHUP, SIGINT, SIGUSR1, SIGTERM, SIGQUIT),
        'a child of the application ends by each'
    );
    my $reader = ask($server, '')->{body};
    is(
        ask($server, 'reads')->{body}, "HUP\nINT\nUSR1\nTERM\nQUIT\n",
        'a read of a worker goes on whatever signal comes'
    );
    isnt(ask($server, '')->{body}, $reader, '... and TERM counts all the same');
    is(ask($server, 'term')->{body}, 'answered', 'TERM does not interrupt a request');
    is(ask($server, '')->{status}, 200, '... and another worker serves');
    is($server->stop, 0, 'the server stops');
    unlike($server->log, qr/no truth/, 'no code of an object is run for that');
    unlike($server->log, qr/destroyed|END with 0/, 'without END blocks and destructors');
};

# An answered request is one that the worker has served, also if it was the last thing that it did.
subtest 'ended by their first requests' => sub {
    my $server = Howdah::Test::Server->start(app => $APP, options => ['--workers', 1]);
    my $left   = sub { scalar(() = $server->log =~ /worker left: .* requests=1$/mg) };
    my @cases =
        ([exit => 500, 'exit'], [behind => 200, 'exit in a cleanup handler'], [begun => 200, 'exit in a stream']);
    for my $at (0 .. $#cases) {
        my ($name, $status, $what) = @{$cases[$at]};
        is(ask($server, $name)->{status}, $status, $what);
        ok($server->wait_until(sub { $left->() == $at + 1 }), '... and the request is counted') or diag $server->log;
    }
    is($server->stop, 0, 'the server stops');
    unlike($server->log, qr/before they serve/, 'nobody takes that for workers that cannot serve');
};

subtest 'asked by USR2 where they are' => sub {
    my $server = Howdah::Test::Server->start(app => $APP, options => ['--workers', 1]);
    my $here   = sub { scalar(() = $server->log =~ /worker \d+ is here:\n.* line \d+, in \S+::__ANON__\n/g) };
    my $pid    = ask($server, '')->{body};
    my $told   = 0;
    my @cases  = (
        [pipe    => "read\n", 'read goes on', 1],
        [own     => "heard, and $pid lives", "the application's own handler counts", 0],
        [ask     => $pid, 'the worker tells again once that has gone', 1],
        [ask     => $pid, '... and again', 1],
        [forked  => SIGUSR2, 'a child that the application forks ends by the signal', 0],
        [program => SIGUSR2, 'so does a program that it runs', 0],
        [''      => $pid, 'the worker serves', 0],
    );
    for my $case (@cases) {
        my ($name, $answer, $what, $more) = @$case;
        is(ask($server, $name)->{body}, $answer, $what);
        $told += $more;
        ok($server->wait_until(sub { $here->() == $told }), "... and the log has been told $told times");
    }
    is($server->stop, 0, 'the server stops');
    is($here->(), $told, 'and no more');
};

# Whether each worker loads it, or the zygote does for all.
for my $options ([], ['--no-preload']) {
    subtest "handlers that the application sets while it is loaded @$options" => sub {
        my $app = <<'PSGI';
my @heard;
sub heard { push @heard, shift }
$SIG{$_} = \&heard for qw(HUP INT PIPE);
$SIG{USR1} = __PACKAGE__ . '::heard';
sub {
    @heard = ();
    kill $_ => $$ for qw(HUP INT USR1);
    pipe my $in, my $out;
    close $in;
    syswrite $out, 'for nobody';
    return [200, [], ["@heard"]];
};
PSGI
        my $server = Howdah::Test::Server->start(app => $app, options => ['--workers', 1, @$options]);
        is(ask($server, '')->{body}, 'HUP INT USR1 PIPE', 'they hear their signals');
        my ($worker) = $server->workers;
        kill TERM => $worker;
        ok(
            $server->wait_for_log(qr/worker left on a TERM or QUIT signal.* pid=$worker\b/),
            'the worker leaves by TERM'
        );
        is(ask($server, '')->{body}, 'HUP INT USR1 PIPE', 'so do those of the next worker');
        is($server->stop, 0, 'the server stops');
    };
}

subtest 'with --full-destruct' => sub {
    my $server = Howdah::Test::Server->start(app => $APP, options => ['--workers', 1, '--full-destruct']);
    is(ask($server, '')->{status}, 200, 'it serves');
    is($server->stop, 0, 'it stops');
    like($server->log, qr/exit of 0\n.*END with 0\n.*destroyed/s, 'hooks, END blocks and destructors run');
};

subtest 'without hooks at the start' => sub {
    my $app = <<'PSGI';
open my $file, '>', "$ENV{TEST_KEPT}" or die $!;
sub {
    my $env = shift;
    print {$file} $env->{PATH_INFO};
    Howdah->worker_exit(sub { warn "late exit of $_[0]\n" }) if $env->{PATH_INFO} eq '/late';
    $env->{'psgix.harakiri.commit'} = 1;
    return [200, [], [$$]];
}
PSGI
    my $kept   = File::Temp->new;
    my $server = Howdah::Test::Server->start(
        app     => $app,
        env     => {TEST_KEPT => "$kept"},
        options => ['--workers', 1]
    );
    ask($server, 'first');
    ok $server->wait_until(sub { -s "$kept" }), 'what is left in the handles of a worker is written at its end';
    ask($server, 'late');
    ok $server->wait_for_log(qr/late exit of \d/), 'and a hook that a request has added runs';
};

subtest 'with --no-preload' => sub {
    my $app    = 'my $loaded = $$; sub { [200, [], [$loaded == $$ ? "in the worker" : "in the zygote"]] }';
    my $server = Howdah::Test::Server->start(app => $app, options => ['--workers', 1, '--no-preload']);
    is(ask($server, '')->{body}, 'in the worker', 'each worker loads the application');
};

for my $options ([], ['--no-preload']) {
    subtest "an application that does not compile @$options" => sub {
        my $server = Howdah::Test::Server->launch(app => "use strict;\nsub { \$missing };\n", options => $options);
        is($server->wait_for_exit, 1, 'exit status 1');
        like(
            $server->log, qr/Global symbol "\$missing" requires explicit package name .*app\.psgi line 2/,
            'Perl\'s message'
        );
    };
}

done_testing;
