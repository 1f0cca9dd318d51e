# howdah upgrade and USR2: a new process of the program takes over sockets and pid file, and no client notices; when it
# does not start, the old one goes on.
use strict;
use warnings;
use lib 't/lib';

use Cwd ();
use File::Spec ();
use Howdah::Test::Client;
use Howdah::Test::Command qw(howdah_bin);
use Howdah::Test::File qw(read_file write_file);
use Howdah::Test::Load;
use Howdah::Test::Operator;
use Howdah::Test::Server;
use Test::More;
use Time::HiRes qw(sleep);

# Of all processes.
sub command_lines {
    my $read = sub { open my $in, '<', shift or return; local $/; return scalar <$in> };
    return grep { defined } map { scalar $read->($_) } glob '/proc/[0-9]*/cmdline';
}

my $operator = Howdah::Test::Operator->new;
my $dir      = $operator->dir;
my $request  = "GET / HTTP/1.0\r\n\r\n";

sub write_app {
    my ($version, $before) = @_;
    open my $out, '>', "$dir/app.psgi" or die $!;
    print {$out} ($before // '') . <<"PSGI";
        my \$load = do './t/apps/load.psgi' or die;
        sub { \$_[0]{PATH_INFO} =~ m{^/\\d} ? \$load->(\@_) : [200, [], ['$version']] };
PSGI
    return close $out;
}

# By its symbolic link, as where each release has a directory of its own.
symlink howdah_bin(), "$dir/howdah" or die $!;
write_app('first');
my $server = Howdah::Test::Server->start(
    command => ["$dir/howdah", '-l', '127.0.0.1:0', '-l', "$dir/app.sock"],
    env     => {HOWDAH_PERL5LIB => join ':', map { File::Spec->rel2abs($_) } 'blib/lib', 'blib/arch'},
    file    => "$dir/app.psgi",
    options => ['--workers', 2, $operator->options],
);
my $port = $server->port;
sub answer { return Howdah::Test::Client->ask(shift, $request)->{body} }

subtest 'three upgrades under load: every request has its response' => sub {
    my @load = map { Howdah::Test::Load->start($server, connections => 8, seconds => 9, fresh => $_) } 0, 1;
    for my $round (1 .. 3) {
        sleep 1;
        my $old = $operator->pid;
        write_app("upgrade $round");
        my ($status, $out, $err) = $operator->ask('upgrade');
        is $status, 0 or diag $err;
        my $new = $operator->pid;
        is $out, "process $new serves, process $old finishes what it has begun\n", 'the pid file has moved';
        isnt $new, $old;
        is answer($_), "upgrade $round", "served at $_" for $port, "$dir/app.sock";
        is $operator->status->{server}{pid}, $new, 'the control socket, too';
        is readlink "/proc/$new/exe", Cwd::realpath(howdah_bin()), 'the program';
        ok $operator->wait_for_end($old), 'the old process leaves';
    }
    for my $result (map { $_->finish } @load) {
        is_deeply $result->{problems}, [];
        is_deeply [keys %{$result->{status}}], [200], "$result->{requests} requests";
    }
};

subtest 'a connection kept from before is served and closed with a word' => sub {
    my $client = Howdah::Test::Client->new($port);
    my $get    = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    $client->write($get);
    $client->response;
    write_app('newer');
    is + ($operator->ask('upgrade'))[0], 0;
    sleep 0.5;
    $client->write($get);
    my $response = $client->response;
    is $response->{body}, 'upgrade 3', 'by the old process';
    is $response->{headers}{connection}[0], 'close';
};

subtest 'a new process that does not start: exit status 1, the reason, and the old one goes on' => sub {
    my $old = $operator->pid;
    write_app('broken', "use strict; \$undeclared = 1;\n");
    my ($status, undef, $err) = $operator->ask('upgrade');
    is $status, 1;
    like $err, qr/no upgrade, process $old goes on: .*Global symbol "\$undeclared"/;

    unlink "$dir/howdah";
    ($status, undef, $err) = $operator->ask('upgrade');
    is $status, 1;
    like $err, qr{cannot start \Q$dir\E/howdah: No such file};

    symlink '/bin/false', "$dir/howdah" or die $!;
    ($status, undef, $err) = $operator->ask('upgrade');
    is $status, 1;
    like $err, qr/ended before it was ready/;

    unlink "$dir/howdah";
    open my $out, '>', "$dir/howdah" or die $!;
    print {$out} "#!/bin/sh\nexec cat /dev/zero >&3\n";
    close $out or die $!;
    chmod oct 755, "$dir/howdah";
    ($status, undef, $err) = $operator->ask('upgrade');
    is $status, 1;
    like $err, qr/cannot understand the new process/, 'one that says anything without end is not heard out';
    is answer($_), 'newer', "still served at $_" for $port, "$dir/app.sock";
    is $operator->pid, $old, 'the pid file stays';
    is $operator->status->{server}{pid}, $old, 'the control socket, too';
};

# systemd waits for the end of its own children alone, and with the main process ends all that is left.
subtest 'the new process is no child of the old one, and does not end before it' => sub {
    for my $impatient (0, 1) {
        my $own = Howdah::Test::Operator->new;
        my ($begun, $end) = map { $own->dir . "/$_" } qw(begun end);
        my $server = Howdah::Test::Server->start(
            app =>
                "sub { if (open my \$out, '>', '$begun') { select undef, undef, undef, 0.02 until -e '$end' } [200, [], ['held']] }",
            options => ['--workers', 1, $own->options]
        );
        my $client = Howdah::Test::Client->new($server->port);
        $client->write($request);
        ok $server->wait_until(sub { -e $begun }), 'the old process has a request';
        my $old = $own->pid;
        is + ($own->ask('upgrade'))[0], 0, 'another serves';
        my $new = $own->pid;
        my ($parent) = read_file("/proc/$new/status") =~ /^PPid:\s+(\d+)/m;
        ok !(grep { $_ == $parent } $old, $$), "its parent is neither the old one nor one that is left ($parent)";
        kill TERM => $new;
        ok $server->wait_until(sub { $server->log =~ /process $old still finishes what it has begun/ }), 'it stops';
        sleep 0.3;
        ok $own->is_running($_), "$_ is there" for $new, $old;
        if ($impatient) { kill INT => $new }
        else { write_file($end, '') }
        ok $own->wait_for_end($_), "$_ ends" for $new, $old;
        my $response = $client->rest;
        like $response, $impatient ? qr/^HTTP\S+ 50/ : qr/held$/,
            $impatient ? 'cut off' : 'the request has its response';
    }
};

subtest 'a server that stops while another is loading takes that along' => sub {
    my $own   = Howdah::Test::Operator->new;
    my $file  = $own->dir . '/app.psgi';
    my $write = sub { open my $out, '>', $file or die $!; print {$out} @_; close $out };
    for my $signal (qw(TERM INT)) {
        $write->('sub { [200, [], []] }');
        my $stopping = Howdah::Test::Server->start(
            command => [howdah_bin(), '-l', '127.0.0.1:0'],
            file    => $file, options => ['--workers', 1, $own->options]
        );
        my $note = $own->dir . "/loading-$signal";
        $write->(
            "open my \$out, '>', '$note.new' or die; print {\$out} \$\$; close \$out; rename '$note.new', '$note'; sleep 100;"
        );
        kill USR2 => $own->pid;
        ok $stopping->wait_until(sub { -e $note }), 'another process loads the application';
        open my $in, '<', $note or die $!;
        my $loading = <$in>;
        $stopping->signal($signal) for 1 .. ($signal eq 'INT' ? 2 : 1);
        is $stopping->wait_for_exit, 0, "the server stops by $signal";
        ok $stopping->wait_until(sub { !kill 0, $loading }), '... and the process that was loading';
    }
};

subtest '... also one that is just being started' => sub {
    my $own   = Howdah::Test::Operator->new;
    my $file  = $own->dir . '/app.psgi';
    my $write = sub { open my $out, '>', $file or die $!; print {$out} @_; close $out };
    for my $wait (0, 0.001, 0.002, 0.004, 0.008) {
        $write->('sub { [200, [], []] }');
        my $stopping = Howdah::Test::Server->start(
            command => [howdah_bin(), '-l', '127.0.0.1:0'],
            file    => $file, options => ['--workers', 1, $own->options]
        );
        $write->('sleep 100');
        kill USR2 => $own->pid;
        sleep $wait;
        is $stopping->stop('INT'), 0, "the server stops, $wait s later";
        ok !(grep { index($_, $own->control) >= 0 } command_lines()), '... and nobody is left';
    }
};

# Both are held in turn, so that the wish comes when the old process has told the new one to go ahead, and waits for its word.
subtest 'what is wished while another process takes over is done by that one' => sub {
    my $own    = Howdah::Test::Operator->new;
    my $server = Howdah::Test::Server->start(
        app     => 'sub { [200, [], []] }',
        options => ['--workers', 1, $own->options]
    );

    # The server that was started is gone after the first turn, so that its own waits would end.
    my $soon  = sub { my $told = shift; $told->() ? last : sleep 0.02 for 1 .. 500; return $told->() };
    my $known = 0;
    for my $wish (qw(HUP TERM)) {
        my ($old, $new) = ($own->pid);
        my $is_new = sub {
            ($new) = grep { $_ != $known } $server->log =~ /is being started pid=(\d+)/g;
        };
        my $is_ready = sub { $server->log =~ /is being started pid=$new.*all workers are ready/s };
        kill USR2 => $old;
        ok $soon->($is_new), 'another is started';
        kill STOP => $old;
        ok $soon->($is_ready), 'and ready';
        sleep 0.2;
        kill STOP => $new;
        kill CONT => $old;
        sleep 0.5;
        kill $wish, $old;
        kill CONT => $new;
        ok $own->wait_for_end($old), "the old process ends, which got $wish";
        $known = $new;
        my $is_done =
            $wish eq 'HUP' ? sub { $server->log =~ /requests go to the new generation/ } : sub { !defined $own->pid };
        ok $soon->($is_done), 'the new one does it' or diag $server->log;
    }
    $own->ask('stop') if defined $own->pid;
};

# By an operator, or for lack of memory. Connections that come in between wait in the sockets, which the new process has.
subtest 'a server that is killed while another is loading has that one go on' => sub {
    my $own    = Howdah::Test::Operator->new;
    my $file   = $own->dir . '/app.psgi';
    my $note   = $own->dir . '/loading';
    my $go     = $own->dir . '/go';
    my $socket = $own->dir . '/app.sock';
    my $killed = Howdah::Test::Server->start(
        app     => "sub { [200, [], ['old']] }",
        options => ['--workers', 1, '-l', $socket, $own->options]
    );
    my $port = $killed->port;
    write_file($killed->dir . '/app.psgi', <<"PSGI");
        open my \$out, '>', '$note' or die; close \$out;
        select undef, undef, undef, 0.05 until -e '$go';
        sub { [200, [], ["of \@{[getppid]}"]] };
PSGI
    my $old = $own->pid;
    kill USR2 => $old;
    ok $killed->wait_until(sub { -e $note }), 'another process loads the application';
    kill KILL => $old;
    $killed->wait_for_exit;
    my @clients = map { Howdah::Test::Client->new($_) } $port, $socket;
    $_->write($request) for @clients;
    write_file($go, '');
    like $_->rest, qr/\r\n\r\nof \d+$/, 'who has connected meanwhile is served' for @clients;
    my $new = $own->pid;
    isnt $new, $old, 'the pid file has moved';
    is $own->status->{server}{pid}, $new, 'the control socket answers';
    like $killed->log, qr/WARN  front: process $old, which was to be replaced, is gone before it could make way/,
        'it is told';
    is + ($own->ask('upgrade'))[0], 0, 'it can be replaced';
    is + ($own->ask('stop'))[0], 0;
    ok $own->wait_for_end($new);
    ok !-e, "$_ is gone" for $socket, $own->control, $own->pid_file;
};

# The old process is stopped by the new one in its first moment, so that it does not answer it when that has forked, to be nobody's child.
subtest '... also one that has just been started; and by a signal that ends it neither of them' => sub {
    for my $signal (qw(KILL TERM)) {
        my ($own, $bin)      = (Howdah::Test::Operator->new, howdah_bin());
        my ($file, $program) = map { $own->dir . "/$_" } 'app.psgi', 'howdah';
        write_file($file, "sub { [200, [], ['served']] }");
        symlink $bin, $program or die $!;
        my $started = Howdah::Test::Server->start(
            command => [$program, '-l', '127.0.0.1:0'],
            env     => {HOWDAH_PERL5LIB => join ':', map { File::Spec->rel2abs($_) } 'blib/lib', 'blib/arch'},
            file    => $file,
            options => ['--workers', 1, $own->options],
        );
        write_file("$program.new", qq(#!/bin/sh\nkill -STOP \$PPID\nexec $bin "\$\@"\n));
        chmod 0755, "$program.new" or die $!;
        rename "$program.new", $program or die $!;
        my ($old, $port) = ($own->pid, $started->port);
        my $processes = sub {
            my @all = grep { index($_, $own->control) >= 0 } command_lines();
            return scalar @all;
        };
        kill USR2 => $old;
        ok $started->wait_until(sub { $processes->() == 3 }), 'another process has been started, and has forked';
        kill $_ => $old for $signal, 'CONT';
        is $started->wait_for_exit, $signal eq 'KILL' ? 'signal 9' : 0, "the server ends by $signal";
        if ($signal eq 'TERM') {
            ok $started->wait_until(sub { !$processes->() }), '... and nobody is left';
            next;
        }
        is(Howdah::Test::Client->ask($port, $request)->{body}, 'served', '... and the new process serves');
        isnt my $new = $own->pid, $old, 'the pid file has moved';
        is + ($own->ask('stop'))[0], 0;
        ok $own->wait_for_end($new) && $started->wait_until(sub { !$processes->() }), 'nobody is left';
    }
};

subtest 'what one process hands to another is for no program that it starts' => sub {
    my $own    = Howdah::Test::Operator->new;
    my $dir    = $own->dir;
    my $server = Howdah::Test::Server->start(
        app     => 'sub { [200, [], [grep { /^(?:HOWDAH_UPGRADE|LISTEN_|WATCHDOG_|NOTIFY_)/ } sort keys %ENV]] }',
        env     => {LISTEN_FDNAMES => 'x', WATCHDOG_USEC => 0, NOTIFY_SOCKET => "$dir/nobody"},
        options => ['--workers', 1, $own->options, '--access-log', "|env >$dir/env.\$\$; cat >/dev/null"]
    );
    my $told = sub {
        my @files = grep { -s } glob "$dir/env.*";
        return \@files;
    };
    is + ($own->ask('upgrade'))[0], 0;
    ok $server->wait_until(sub { @{$told->()} == 2 }), 'each has started the command of its log';
    unlike read_file($_), qr/^(?:HOWDAH_UPGRADE|LISTEN_\w+|WATCHDOG_\w+|NOTIFY_SOCKET)=/m, 'its environment'
        for @{$told->()};
    is answer($server->port), '', 'nor the application';
    $own->ask('stop');
};

# In a user namespace of its own the server may be refused what it needs late: to watch files.
SKIP: {
    my $limit = '/proc/sys/user/max_inotify_instances';
    my @apart = qw(unshare -Ur sh -c);
    skip 'there are no user namespaces', 1 if system(@apart, "echo 0 2>/dev/null >$limit") != 0;
    subtest 'a new process that fails when it was told to go ahead leaves everything to the old one' => sub {
        my $own   = Howdah::Test::Operator->new;
        my $limit = $own->dir . '/limit';
        my $script =
            "(while [ ! -e $limit ]; do sleep 0.1; done; echo 0 >/proc/sys/user/max_inotify_instances; touch $limit.done) "
            . '</dev/null >/dev/null 2>&1 & exec "$0" "$@"';
        my $old = Howdah::Test::Server->start(
            command => [@apart, $script, howdah_bin(), '-l', '127.0.0.1:0', '-l', $own->dir . '/app.sock', '--reload'],
            app     => 'sub { [200, [], ["old"]] }', options => ['--workers', 1, $own->options]
        );
        open my $out, '>', $limit or die $!;
        ok $old->wait_until(sub { -e "$limit.done" }), 'no files can be watched any more';
        my ($status, undef, $err) = $own->ask('upgrade');
        is $status, 1;
        like $err, qr/no upgrade, process \d+ goes on: cannot watch files for --reload/;
        is +Howdah::Test::Client->ask($_, $request)->{body}, 'old', "still served at $_"
            for $old->port, $own->dir . '/app.sock';
        is $own->pid, $old->pid, 'the pid file stays';
        is $own->status->{server}{pid}, $old->pid, 'the control socket, too';
        is $old->stop, 0, 'it stops';
        ok !-e $own->dir . "/$_", "$_ is gone" for qw(app.sock control pid);
    };
}

subtest 'where somebody has removed sockets, that is told, and they are made anew' => sub {
    my $other   = Howdah::Test::Operator->new;
    my $socket  = "$dir/cleaned.sock";
    my $cleaned = Howdah::Test::Server->start(
        app     => 'sub { [200, [], ["served"]] }',
        options => ['--workers', 1, '-l', "$socket,mode=600", $other->options]
    );
    my $before = $other->pid;
    for my $file ($other->control, $socket) {
        unlink $file or die $!;
        ok $cleaned->wait_for_log(qr/ERROR .*removed the socket \Q$file\E, .*kill -USR2 $before/), "$file is missed";
    }
    kill USR2 => $before;
    ok $other->wait_for_end($before), 'the old process leaves' or diag $cleaned->log;
    is + (stat $other->control)[2] & oct(777), oct(600), 'the socket is for its owner alone';
    is $other->status->{server}{pid}, $other->pid, '... and the new process answers there';
    is answer($socket), 'served', 'requests, too';
    is + (stat $socket)[2] & oct(777), oct(600), '... by a socket of the same mode';
    is + ($other->ask('stop'))[0], 0;
    ok !-e, "... and takes $_ along" for $other->control, $socket;
};

subtest 'a new process that fails takes the sockets along that it has made anew: they led to nobody' => sub {
    my $other  = Howdah::Test::Operator->new;
    my $socket = "$dir/lost.sock";
    my $app    = "$dir/lost.psgi";
    my $write  = sub { open my $out, '>', $app or die $!; print {$out} @_; close $out or die $! };
    $write->('sub { [200, [], ["served"]] }');
    my $server = Howdah::Test::Server->start(
        file    => $app,
        options => ['--workers', 1, '-l', $socket, $other->options]
    );
    unlink $socket or die $!;
    $write->('die "not now\n"');
    is + ($other->ask('upgrade'))[0], 1;
    ok $server->wait_for_log(qr/removed the socket \Q$socket\E: it is made anew/), 'it had made one';
    ok !-e $socket, 'which is gone';
    $write->('sub { [200, [], ["served"]] }');
    is + ($other->ask('upgrade'))[0], 0, 'another upgrade';
    is answer($socket), 'served', '... makes one that stays';
    is + ($other->ask('stop'))[0], 0;
};

subtest 'by USR2; and the last one cleans up' => sub {
    my $old = $operator->pid;
    unlink "$dir/howdah";
    symlink howdah_bin(), "$dir/howdah" or die $!;
    write_app('last');
    kill USR2 => $old;
    ok $operator->wait_for_end($old), 'the old process leaves';
    is answer($port), 'last';
    my $last = $operator->pid;
    is + ($operator->ask('stop'))[0], 0;
    ok $operator->wait_for_end($last), 'it ends';
    ok !-e "$dir/$_", "$_ is gone" for qw(app.sock control pid);
};

done_testing;
