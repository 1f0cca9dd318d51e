# A server whose application is still being loaded: it tells so, and can be stopped; nobody who asks waits for the end of that.
# And a start that fails is told where it was asked for, wherever the log is.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Command qw(howdah_bin run_command);
use Howdah::Test::Operator;
use Howdah::Test::Process qw(descendants);
use Howdah::Test::Server;
use Test::More;
use Time::HiRes qw(sleep);

my $operator = Howdah::Test::Operator->new;
my $go       = $operator->dir . '/go';

# Loads until the file is there.
my $app = "for (1 .. 3000) { last if -e '$go'; select undef, undef, undef, 0.02 } sub { [200, [], ['served']] }";

sub starting {
    my @options = @_;
    unlink $go;
    my $server = Howdah::Test::Server->launch(app => $app, options => ['--workers', 2, $operator->options, @options]);
    $server->wait_for_log(qr/is being loaded/) or die $server->log;
    return $server;
}

subtest 'who asks has an answer' => sub {
    my $server = starting();
    my ($status, $out) = $operator->ask('status');
    is $status, 0;
    like $out, qr/ is starting \S*app\.psgi /;
    like $out, qr{^listening\s+http://127\.0\.0\.1:\d+$}m, 'clients wait there';
    is $operator->status->{state}, 'starting', 'for programs';
    for my $command (
        ['reload'], ['workers', '+1'], ['reopen'], ['upgrade'], ['leaks'], ['heap'],
        ['profile', '--nytprof']
        )
    {
        ($status, undef, my $error) = $operator->ask(@$command);
        is $status, 1, "@$command";
        like $error, qr/the server is starting, .* howdah status .* howdah stop/s, '... says why not, and the way out';
    }
    my $profile = $operator->dir . '/profile';
    for my $command (['where'], ['profile', '--seconds', 10, '--output', $profile]) {
        ($status, undef, my $error) = $operator->ask(@$command);
        is $status, 1, $command->[0];
        like $error, qr/no worker at this moment/;
    }
    is_deeply [glob "$profile*"], [], 'a profile that was made before stays';
    ($status, $out) = $operator->ask('top', '--once');
    is $status, 0, 'top';
    like $out, qr/ starting /;

    open my $made, '>', $go or die $!;
    ok $server->wait_for_log(qr/serving /), 'it serves then';
    is $operator->status->{state}, 'ready';
    is + ($operator->ask('reload'))[0], 0, '... and does what it is asked for';
};

subtest 'a stop' => sub {
    for my $command (['stop'], ['stop', '--now']) {
        my $server = starting();
        my ($status, $out) = $operator->ask(@$command);
        is $status, 0, "@$command";
        is $out, "stopped\n", '... is answered at its end';
        is $server->wait_for_exit(10), 1, 'the start has failed';
        like $server->log, qr/^howdah: stopped before the application was loaded$/m;
        ok !-e $operator->control && !-e $operator->pid_file, 'no file is left';
    }
};

# Perl sees to a signal with a handler when what it waits for is over, so it may hang as this does.
subtest 'a stop of one whose application heeds no signal while it is loaded' => sub {
    my $stubborn = 'BEGIN { $SIG{TERM} = "IGNORE"; warn "process $$ hangs\n"; sleep 60 } sub { }';
    my $server   = Howdah::Test::Server->launch(app => $stubborn, options => [$operator->options]);
    ok $server->wait_for_log(qr/process \d+ hangs/) or return;
    my ($zygote) = $server->log =~ /process (\d+) hangs/;
    is + ($operator->ask('stop'))[0], 0;
    is $server->wait_for_exit(10), 1;
    ok $server->wait_until(sub { !kill 0, $zygote }, 5), 'no process is left' or kill KILL => $zygote;
};

# Of such a process the kernel keeps signals that it does not catch.
subtest 'TERM of the first process of a container, at any time of its start' => sub {
    my @unshare = qw(unshare --pid --fork --mount-proc --kill-child);
    plan skip_all => 'no such namespace can be had here' if (run_command(@unshare, 'true'))[0];
    my ($perl, $asked) = map { $operator->dir . "/$_" } qw(slow-perl asked);
    open my $script, '>', $perl or die $!;
    print {$script}
        qq(#!/bin/sh\necho > $asked\nfor i in `seq 500`; do [ -e $go ] && break; sleep 0.02; done\nexec perl "\$@"\n);
    close $script or die $!;
    chmod 0755, $perl;
    unlink $go;
    my @howdah = (howdah_bin(), '--listen', '127.0.0.1:0', '--workers', 1, '--perl', $perl);
    my $server = Howdah::Test::Server->launch(command => [@unshare, @howdah, '-e', 'sub { }']);
    ok $server->wait_until(sub { -e $asked }), 'it asks whether there is a perl' or return;
    my ($first) = descendants(1, $server->pid);
    kill TERM => $first;
    open my $made, '>', $go or die $!;
    is $server->wait_for_exit(10), 1, 'it ends when it can';
    like $server->log, qr/^howdah: stopped before the application was loaded$/m;
    unlink $go;
};

subtest 'a limit of addresses that leaves no room for shared memory' => sub {
    my @howdah = (howdah_bin(), '--listen', '127.0.0.1:0', '-e', $app);
    my ($status, undef, $error) = run_command('sh', '-c', 'ulimit -v 300000; exec "$@"', 'sh', @howdah);
    is $status, 1;
    like $error, qr/Cannot allocate memory .*ulimit -v/, 'is named, and what to raise';
};

# Nobody attends to signals yet when its number is there, a moment before the application is loaded.
subtest 'a signal as soon as the pid file is there' => sub {
    unlink $go;
    my $server = Howdah::Test::Server->launch(app => $app, options => ['--workers', 2, $operator->options]);
    for (1 .. 20_000) {
        last if ($operator->pid // 0) == $server->pid;
        sleep 0.001;
    }
    $server->signal($_) for qw(HUP USR1 USR2 TTIN TTOU TERM);
    is $server->wait_for_exit(10), 1, 'it stops because of TERM, and no other has ended it';
    like $server->log, qr/^howdah: stopped before the application was loaded$/m;
    ok !-e $operator->control && !-e $operator->pid_file, 'no file is left';
};

# Requests are written there.
sub log_goes_on {
    my ($server, $log, $what) = @_;
    ok $server->wait_until(sub {
        Howdah::Test::Client->ask($server->port, "GET / HTTP/1.0\r\n\r\n");
        return -s $log;
        }),
        $what;
    return;
}

subtest 'logs that are rotated, and an application that changes, while one starts' => sub {
    my $log    = $operator->dir . '/access.log';
    my $server = starting('--access-log', $log);
    rename $log, "$log.1" or die $!;
    $server->signal($_) for qw(USR1 HUP);
    sleep 0.2;
    open my $made, '>', $go or die $!;
    ok $server->wait_for_log(qr/requests go to the new generation/), 'it is loaded anew after that';
    log_goes_on($server, $log, '... and writes to the new file');

    unlink $go;
    $server->signal('USR2');
    ok $server->wait_for_log(qr/is being started pid=/), 'another one starts';
    ok $server->wait_for_log(qr/(?:is being loaded.*){3}/s), 'and loads the application';
    rename $log, "$log.2" or die $!;
    is + ($operator->ask('reopen'))[0], 0, 'howdah reopen';
    my $finish = $operator->begin('reload');
    ok $server->wait_for_log(qr/(?:is being loaded.*){4}/s), 'howdah reload';
    open $made, '>', $go or die $!;
    is $server->wait_for_exit(30), 0, 'the old one leaves';
    ok $server->wait_until(sub { 2 <= (() = $server->log =~ /requests go to the new generation from=1 to=2/g) }),
        'the new one loads anew, too';
    log_goes_on($server, $log, '... and writes to the new file');
    $finish->();
    is + ($operator->ask('stop'))[0], 0;
};

subtest 'an upgrade: the server that serves answers until the next one does' => sub {
    my $server = starting();
    open my $made, '>', $go or die $!;
    ok $server->wait_for_log(qr/serving /);
    unlink $go;
    $server->signal('USR2');
    ok $server->wait_for_log(qr/is being loaded.*is being loaded/s), 'the next one loads';
    my $state = $operator->status;
    is $state->{state}, 'ready';
    is $state->{server}{pid}, $server->pid;
    open $made, '>', $go or die $!;
    is $server->wait_for_exit(30), 0, 'it leaves';
    ok $server->wait_until(sub { $operator->status->{server}{pid} != $server->pid }), 'and the next one answers';
    is + ($operator->ask('stop'))[0], 0;
};

subtest 'a server that has been stopped by a signal' => sub {
    my $server = starting();
    my $pid    = $server->pid;
    my @heap   = (heap => '--output' => $operator->dir . '/heap');
    $server->signal('STOP');
    my @asked = map { [$_, $operator->begin(@$_)] } ['status'], ['reload'], ['reopen'], [workers => '+1'],
        [leaks => '--seconds', 1], [heap => '--why', 'X'], \@heap;
    for (@asked) {
        my ($command, $finish) = @$_;
        my ($status, undef, $error) = $finish->();
        is $status, 1, "@$command ends";
        like $error, qr/does not answer; it may have been stopped .*\(see process $pid\)/, '... and says why';
    }
    my ($status, undef, $error) = $operator->ask('stop');
    is $status, 1;
    like $error, qr/does not answer; .*; it stops when it goes on \(kill -CONT $pid\)/, 'that it stops later is said';
    $server->signal('CONT');
    is $server->wait_for_exit(10), 1, '... and true';
};

subtest 'a start that fails is told who asked for it, not the error log alone' => sub {
    my ($broken, $log) = map { $operator->dir . "/$_" } 'broken.psgi', 'error.log';
    open my $out, '>', $broken or die $!;
    print {$out} 'warn "on my way\n"; die "no database\n"';
    close $out or die $!;
    for my $options ([], ['--daemonize']) {
        my ($status, undef, $error) = run_command(
            howdah_bin(), '--listen', '127.0.0.1:0', $operator->options, '--error-log', $log, @$options,
            $broken
        );
        is $status, 1, "--error-log @$options";
        like $error, qr/^howdah: the application does not load: .*no database/m;
        like $error, qr/^howdah: the error log \Q$log\E may tell more$/m;
        unlike $error, qr/on my way/, 'what the application says is for the log';
    }
    open my $in, '<', $log or die $!;
    is scalar(grep { /does not load: .*no database/ } <$in>), 2, 'the log has it, too';
};

subtest 'one that has started says nothing there' => sub {
    my $log    = $operator->dir . '/quiet.log';
    my $server = Howdah::Test::Server->launch(
        app     => 'warn "loaded\n"; sub { [200, [], []] }',
        options => [$operator->options, '--error-log', $log]
    );
    ok $server->wait_until(sub { -e $operator->control && $operator->status->{state} eq 'ready' });
    is $server->stop, 0;
    is $server->log, '';
};

done_testing;
