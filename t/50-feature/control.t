# howdah status, reload, reopen, workers and stop: they ask the server by its control socket, wait for what they asked for, and
# tell by the exit status whether it was done.
use strict;
use warnings;
use lib 't/lib';

use File::Temp ();
use Howdah::Test::Client;
use Howdah::Test::Command qw(howdah_bin run_command run_howdah);
use Howdah::Test::File qw(read_if_any);
use Howdah::Test::Operator;
use Howdah::Test::Server;
use IO::Socket::UNIX;
use Socket qw(AF_UNIX SOCK_STREAM pack_sockaddr_un);
use Test::More;

my $operator = Howdah::Test::Operator->new;
my $file     = $operator->dir . '/app.psgi';
my @options  = ('--workers', 2, '--graceful-timeout', 5, '--access-log', '|cat >/dev/null', $operator->options);

sub write_app {
    open my $out, '>', $file or die $!;
    print {$out} shift;
    return close $out;
}

sub answer { return Howdah::Test::Client->ask(shift, "GET / HTTP/1.0\r\n\r\n")->{body} }

write_app('sub { [200, [], ["first"]] }');
my $server = Howdah::Test::Server->start(file => $file, options => \@options);

subtest 'the socket is for its owner alone' => sub {
    is + (stat $operator->control)[2] & oct(777), oct(600);
};

subtest 'status, for people and for programs' => sub {
    answer($server);
    my ($status, $out) = $operator->ask('status');
    is $status, 0;
    like $out, qr{^listening\s+http://127\.0\.0\.1:\d+$}m;
    like $out, qr/^generation\s+1$/m;
    is scalar(() = $out =~ /^\s+\d+\s+\d+\s+idle\s/mg), 2, 'a line for each worker';
    my $state = $operator->status;
    is $state->{server}{pid}, $server->pid;
    is_deeply [sort map { $_->{pid} } @{$state->{workers}{list}}], [sort $server->workers];
    is + (grep { $_->{requests} } @{$state->{workers}{list}})[0]{requests}, 1, 'requests are counted';
    cmp_ok $_->{memory}, '>', 10_000, 'private memory' for @{$state->{workers}{list}};
};

subtest 'reload: the new code serves when the command returns' => sub {
    write_app('sub { [200, [], ["second"]] }');
    my ($status, $out) = $operator->ask('reload');
    is $status, 0;
    is $out, "generation 2 serves\n";
    is answer($server), 'second';
};

subtest 'reload of code that does not load: exit status 1, Perl tells why, the old code serves' => sub {
    write_app('use strict; $undeclared = 1;');
    my ($status, $out, $err) = $operator->ask('reload');
    is $status, 1;
    like $err, qr/Global symbol "\$undeclared" requires explicit package name .*line 1/;
    is answer($server), 'second';
    is $operator->status->{generation}, 2;
};

subtest 'workers: more, fewer, that many' => sub {
    for my $case (['+2', 4], ['-1', 3], ['2', 2]) {
        my ($status, $out) = $operator->ask('workers', $case->[0]);
        is $status, 0;
        is $out, "$case->[1] workers from now on\n", "workers $case->[0]";
        ok $server->wait_until(sub { $server->workers == $case->[1] }), 'and they come or go';
    }
    for my $case (
        [99, qr/^howdah: 32 workers .* not 99: 32 is the most that this server has room for; .* --workers$/],
        ['-99', qr/^howdah: 1 worker from now on: at least one is kept/]
        )
    {
        my ($status, $out, $err) = $operator->ask('workers', $case->[0]);
        is "$status$out", 1, "workers $case->[0]";
        like $err, $case->[1];
    }
    is + ($operator->ask('workers', 2))[0], 0;
    is + ($operator->ask('workers', 'many'))[0], 2, 'a mistake in the command line';
};

subtest 'reopen: the logs are files of their names again' => sub {
    my $dir    = $operator->dir;
    my $own    = Howdah::Test::Operator->new;
    my @logs   = ('--access-log', "$dir/access", '--error-log', "$dir/errors");
    my $server = Howdah::Test::Server->launch(
        app     => 'sub { warn "warned\n"; [200, [], ["ok"]] }',
        options => ['--workers', 1, $own->options, @logs]
    );
    my $content = sub { read_if_any("$dir/$_[0]") };
    $server->wait_until(sub { $content->('errors') =~ /serving .* on / });
    my ($url)  = $content->('errors') =~ /serving .* on (\S+)/;
    my ($port) = $url =~ /:(\d+)/;
    answer($port);
    ok $server->wait_until(sub { $content->('errors') =~ /warned/ }),
        'what an application says comes beside its response';
    rename "$dir/$_", "$dir/$_.1" or die $! for qw(access errors);
    my ($status, $out, $err) = $own->ask('reopen');
    is $status, 0 or diag $err;
    is $out, "the access log $dir/access and the error log $dir/errors are open anew\n";
    like $content->('access.1'), qr{"GET / HTTP/1.0" 200}, 'lines from before are in the old file';
    is $content->('access') . $content->('errors'), '', 'the new ones are empty';
    answer($port);
    ok $server->wait_until(sub { $content->('access') =~ /"GET / && $content->('errors') =~ /warned/ }),
        'until something happens, in workers too';
    mkdir "$dir/$_.2" and rename "$dir/$_", "$dir/$_.2/x" and mkdir "$dir/$_" or die $! for qw(access errors);
    ($status, undef, $err) = $own->ask('reopen');
    is $status, 1, 'what cannot be opened';
    my %told = map { $_->[1] => qr{cannot open the $_->[0] log \Q$dir\E/$_->[1] anew: [^;]*; the old one goes on} }
        [qw(access access)],
        [qw(error errors)];
    like $err, $told{$_}, "... is told: $_" for sort keys %told;
    my $trouble = sub { join ' ', ($own->ask('status'))[1] =~ /^trouble +(.*)/mg };
    my ($access, $errors) =
        map { qr/$_->[0] log \Q$dir\E\/$_->[1]: it could not be opened anew: [^;]*; lines go to the old file/ }
        [qw(access access)],
        [qw(error errors)];
    like $trouble->(), qr/^$access $errors$/, '... also where the server is looked at';
    rmdir "$dir/access" or die $!;
    is + ($own->ask('reopen'))[0], 1, 'one that can be opened, and one that still cannot';
    like $trouble->(), qr/^$errors$/, 'the other is in trouble';
    rmdir "$dir/errors" or die $!;
    is + ($own->ask('reopen'))[0], 0, 'both';
    is $trouble->(), '', 'and all is well';
    is + ($operator->ask('reopen'))[1], "no log goes to a file: there is nothing to open anew\n", 'without files';
};

# Of a process that finishes a request, by each way in which one comes to that: a stop, and another process in its place.
sub leaving {
    my ($how)  = @_;
    my $own    = Howdah::Test::Operator->new;
    my $dir    = $own->dir;
    my $server = Howdah::Test::Server->start(
        app =>
            "my \$go = '$dir/go'; sub { warn 'begun'; select undef, undef, undef, 0.05 until -e \$go; [200, [], []] }",
        options => ['--workers', 1, $own->options, '--access-log', "$dir/access"],
    );
    my $client = Howdah::Test::Client->asking($server, '/last');
    $server->wait_for_log(qr/begun/);
    $how->($own, $server);
    return ($own, $server, $client);
}

# Its log is rotated, and it comes to its end.
sub rotate {
    my ($own, $server, $client) = @_;
    my $log = $own->dir . '/access';
    rename $log, "$log.1" or die $!;
    is + ($own->ask('reopen'))[1], "the access log $log is open anew\n", 'reopen';
    my $number = sub { -e $_[0] ? join ' ', (stat _)[0, 1] : '' };
    my $fds    = '/proc/' . $server->pid . '/fd/*';
    ok $server->wait_until(sub {
        grep { $number->($_) eq $number->($log) } glob $fds;
        }),
        'the process that leaves has it, too';
    open my $go, '>', $own->dir . '/go' or die $!;
    is $client->response->{status}, 200;
    is $server->wait_for_exit, 0;
    open my $in, '<', $log or die $!;
    return like scalar(<$in>), qr{GET /last}, '... and its last line is in there';
}

subtest 'a server that stops: its logs can be rotated, the rest is refused at once' => sub {
    my @leaving =
        leaving(sub { my ($own, $server) = @_; $server->signal('TERM'); $server->wait_for_log(qr/stopping:/) });
    for my $command (['reload'], [workers => '+1'], ['upgrade']) {
        my ($status, undef, $err) = $leaving[0]->ask(@$command);
        is $status, 1, "@$command";
        like $err, qr/^howdah: (?:no upgrade, .*: )?the server is stopping$/;
    }
    rotate(@leaving);
};

subtest 'a process that has been replaced: its logs are rotated with those of the next one' => sub {
    my @leaving = leaving(sub { is + ($_[0]->ask('upgrade'))[0], 0, 'upgrade' });
    rotate(@leaving);
    is + ($leaving[0]->ask('stop'))[0], 0;
};

subtest 'stop --now: a process that has been replaced ends, too' => sub {
    my ($own, $server, $client) = leaving(sub { is + ($_[0]->ask('upgrade'))[0], 0, 'upgrade' });
    is + ($own->ask('stop', '--now'))[1], "stopped\n";
    is $server->wait_for_exit(10), 0, 'it has not waited for its request';
    is $client->response->{status}, 502;
};

subtest 'nonsense is answered, not obeyed' => sub {
    for my $line ("dance\n", "{\"command\":\"dance\"}\n", "\n") {
        my $socket = IO::Socket::UNIX->new(Peer => $operator->control) or die $!;
        print {$socket} $line;
        like scalar(<$socket>), qr/^\{"failed":"no request/;
    }
};

subtest 'a second server of the same name is refused, with the way out' => sub {
    my ($status, undef, $err) = run_howdah('-l', '127.0.0.1:0', '--control', $operator->control, $file);
    is $status, 1;
    like $err, qr/another server answers at .*howdah stop --control .* --name/s;
    is answer($server), 'second', 'the first serves on';
};

subtest 'a control socket that cannot take the place of somebody else\'s leaves nothing behind' => sub {
    plan skip_all => 'takes root' if $> || system 'setpriv --version >/dev/null 2>&1';
    my $dir = File::Temp->newdir('howdah-test-XXXXXX', TMPDIR => 1);
    chmod oct(1777), $dir or die $!;
    close(IO::Socket::UNIX->new(Local => "$dir/control", Listen => 1) // die $!);
    my @nobody = qw(setpriv --reuid=65534 --regid=65534 --clear-groups);
    my @howdah = (howdah_bin(), '-l', '127.0.0.1:0', '--control', "$dir/control", '-e', 'sub { [200, [], []] }');
    my ($status, undef, $err) = run_command(@nobody, @howdah);
    is $status, 1;
    like $err, qr{cannot make the control socket \Q$dir\E/control: Operation not permitted};
    is_deeply [glob "$dir/*"], ["$dir/control"];
};

subtest 'a server is found by its name, which its processes bear' => sub {
    my $name  = "test-$$";
    my $named = Howdah::Test::Server->start(
        app => 'sub { [200, [], []] }', options => ['--name', $name, '--workers', 1],
        env => {HOWDAH_CONTROL => undef}
    );
    my ($status, $out, $err) = run_howdah('status', '--name', $name);
    is $status, 0 or diag $err;
    like $out, qr/^\Q$name\E serves .*app\.psgi with howdah/;
    is scalar($named->processes(qr/worker \[\Q$name\E\]/)), 1;
    is + (run_howdah('stop', '--name', $name))[0], 0;
    is $named->wait_for_exit(1), 0;
};

subtest 'commands that may open too few files say what to raise' => sub {
    for my $command ('reload', 'where') {
        my @limited =
            ('sh', '-c', 'ulimit -n 4; exec "$@"', 'sh', howdah_bin(), $command, '--control', $operator->control);
        my ($status, undef, $err) = run_command(@limited);
        is $status, 1, $command;
        like $err, qr/^howdah: cannot .*: Too many open files .*; raise the limit of open files \(ulimit -n\)$/;
    }
};

subtest 'a server that has been stopped while many asked it keeps nobody waiting' => sub {
    kill STOP => $server->pid;
    my $asked = 0;

    # Who has hung up takes room, too.
    while ($asked++ < 100_000) {
        socket my $client, AF_UNIX, SOCK_STREAM, 0 or die $!;
        $client->blocking(0);
        connect $client, pack_sockaddr_un($operator->control) or last;
    }
    cmp_ok $asked, '<', 100_000, 'it has no room for more';
    for my $command ('status', 'reload') {
        my ($status, undef, $err) = $operator->ask($command);
        is $status, 1, "$command gives up";
        like $err, qr/the server at .* does not answer; it may have been stopped/, '... and says why';
    }
    kill CONT => $server->pid;
    is $operator->status->{server}{pid}, $server->pid, 'it answers when it goes on';
};

subtest 'stop returns when everything is gone' => sub {
    my @family = ($server->pid, $server->workers);
    my ($status, $out) = $operator->ask('stop');
    is $status, 0;
    is $server->wait_for_exit(1), 0, 'the server';
    ok !(grep { kill 0, $_ } @family[1 .. $#family]), 'its workers';
    ok !-e $_, "$_ is removed" for $operator->control, $operator->pid_file;
    ($status, undef, my $err) = $operator->ask('status');
    is $status, 1, 'whom nobody answers is told so';
    like $err, qr/no server answers at .*--name.*--control/;
};

subtest 'stop --now cuts running requests off; a socket left behind by a killed server is replaced' => sub {
    write_app('sub { sleep 60; [200, [], ["late"]] }');
    $server = Howdah::Test::Server->start(file => $file, options => \@options);
    $server->signal('KILL');
    $server->wait_for_exit;
    ok -S $operator->control, 'left behind';
    $server = Howdah::Test::Server->start(file => $file, options => \@options);
    my $client = Howdah::Test::Client->new($server);
    $client->write("GET / HTTP/1.0\r\n\r\n");
    $server->wait_until(sub {
        grep { $_->{state} eq 'busy' } @{$operator->status->{workers}{list}};
    });
    is + ($operator->ask('stop', '--now'))[0], 0;
    is $server->wait_for_exit(1), 0;
};

done_testing;
