# --daemonize, --pid and --error-log: the command comes back when the server is ready, and says so by its
# exit status when it will never be.
use strict;
use warnings;
use lib 't/lib';

use File::Temp qw(tempdir);
use Howdah::Test::Client;
use Howdah::Test::Command qw(howdah_bin run_command run_howdah);
use Howdah::Test::File qw(read_if_any write_file);
use Howdah::Test::Process qw(descendants titled);
use POSIX qw(SIGTERM);
use Test::More;
use Time::HiRes qw(sleep);

alarm 120;
my $dir     = tempdir(CLEANUP => 1);
my @options = ('-D', '--pid', "$dir/pid", '--error-log', "$dir/log", '-l', "$dir/app.sock", '--workers', 1);
my @started;

END {
    local $?;
    kill KILL => grep { is_howdah($_) } @started;
}

# Whether that process is a server of this test, and not another that got its number since.
sub is_howdah { return read_if_any("/proc/$_[0]/cmdline") =~ /\Q$dir\E/ }

# What the log says once it says that; a thread writes it, beside the answers.
sub logged {
    my $said = shift;
    for (1 .. 500) {
        last if read_if_any("$dir/log") =~ $said;
        sleep 0.02;
    }
    return read_if_any("$dir/log");
}

sub start { return started(run_howdah(@options, @_)) }

sub plackup {
    my ($plackup) = grep { -x } map { "$_/plackup" } split /:/, $ENV{PATH};
    return started(run_command($^X, $plackup, '-s', 'Howdah', @options, @_));
}

sub started {
    my @result = @_;
    my ($pid) = read_if_any("$dir/pid") =~ /^(\d+)$/;
    push @started, $pid if $pid;
    return ($pid, @result);
}

# False when it is still there after ten seconds.
sub wait_for_end {
    my $pid = shift;
    for (1 .. 500) {
        return 1 if !is_howdah($pid);
        sleep 0.02;
    }
    return 0;
}

open my $app, '>', "$dir/app.psgi" or die $!;
print {$app} 'sub { $_[0]{"psgi.errors"}->print("noted\n"); [200, [], ["hello"]] }';
close $app or die $!;

subtest 'an application that does not compile is a failed start' => sub {
    my ($pid, $status) = start('-e', 'this is no Perl');
    is $status, 1;
    like read_if_any("$dir/log"), qr/syntax error|Can't locate object method/, 'the error log has the reason';
    is $pid, undef, 'no pid file stays behind';
};

subtest 'the command returns when requests are answered' => sub {
    my ($pid, $status) = start("$dir/app.psgi");
    is $status, 0 or diag read_if_any("$dir/log");
    ok is_howdah($pid), 'the pid file names the server';
    my $request = "GET / HTTP/1.0\r\n\r\n";
    is(Howdah::Test::Client->ask("$dir/app.sock", $request)->{body}, 'hello', 'no wait is needed');
    my $noted = qr/ GET \/: noted$/m;
    like logged($noted), $noted, 'psgi.errors goes to the error log';
    like read_if_any("$dir/log"), qr/ stop with kill $pid, /, 'which says how to stop it';
    is readlink "/proc/$pid/fd/$_", '/dev/null', "descriptor $_ lets go of the terminal" for 0, 1;
};

subtest 'a second server does not take over the pid file of a first that runs' => sub {
    my ($first) = read_if_any("$dir/pid") =~ /(\d+)/;
    my ($status, undef, $err) = run_howdah('-D', '--pid', "$dir/pid", '-l', "$dir/other.sock", "$dir/app.psgi");
    is $status, 1;
    like $err, qr/\Q$dir\E\/pid names process $first/;
    is read_if_any("$dir/pid"), "$first\n", 'which it leaves alone';
};

# As in a container that starts anew with a file of before: there it may be one of its own.
subtest '... but one that a launcher has by now' => sub {
    my ($first)    = read_if_any("$dir/pid") =~ /(\d+)/;
    my ($launcher) = titled('launcher', descendants(1, $first));
    write_file("$dir/stale", "$launcher\n");
    my ($status, undef, $err) = run_howdah('-D', '--pid', "$dir/stale", '-l', "$dir/other.sock", "$dir/app.psgi");
    is $status, 0 or diag $err;
    my ($second) = read_if_any("$dir/stale") =~ /(\d+)/;
    isnt $second, $launcher, 'is overwritten';
    kill TERM => $second if $status == 0;
    ok wait_for_end($second), 'it ends';
};

subtest 'TERM ends it, and nothing stays behind' => sub {
    my ($pid) = read_if_any("$dir/pid") =~ /(\d+)/;
    kill TERM => $pid;
    ok wait_for_end($pid), 'it ends';
    ok !-e "$dir/$_", "$_ is gone" for 'pid', 'app.sock';
};

subtest 'who ends the command before it comes back has no server' => sub {
    open my $out, '>', "$dir/hangs.psgi" or die $!;
    print {$out} "open my \$out, '>', '$dir/loads' or die; print {\$out} getppid; close \$out; sleep 60; sub { }";
    close $out;
    my $command = fork // die $!;
    if (!$command) {
        open STDERR, '>', "$dir/said" or die $!;
        exec howdah_bin(), @options, "$dir/hangs.psgi" or POSIX::_exit(1);
    }
    for (1 .. 500) { last if -s "$dir/loads"; sleep 0.02 }
    my ($pid) = read_if_any("$dir/pid") =~ /(\d+)/;
    push @started, $pid;
    ok is_howdah($pid), 'the application is being loaded';
    kill TERM => $command;
    waitpid $command, 0;
    is $?, SIGTERM;
    ok wait_for_end($pid), 'the process in the background ends, too';
    like read_if_any("$dir/log"), qr/ERROR front: whoever started it has not waited/, 'and says why';
    ok !-e "$dir/$_", "$_ is gone" for 'pid', 'app.sock';
};

# As after a crash of the machine: the file has outlived its server, and its number has gone to somebody else.
subtest 'a pid file with the number of another program is stale' => sub {
    open my $out, '>', "$dir/pid" or die $!;
    print {$out} "$$\n";
    close $out;
    my ($pid, $status, $err) = start("$dir/app.psgi");
    is $status, 0, 'the server starts' or diag read_if_any("$dir/log");
    isnt $pid, $$, '... and has its own number there';
    kill TERM => $pid if $pid != $$;
    ok wait_for_end($pid), 'it ends';
};

subtest 'plackup waits, too' => sub {
    my ($pid, $status) = plackup('-E', 'test', "$dir/app.psgi");
    is $status, 0 or diag read_if_any("$dir/log");
    ok is_howdah($pid), 'the pid file names the server';
    is(Howdah::Test::Client->ask("$dir/app.sock", "GET / HTTP/1.0\r\n\r\n")->{body}, 'hello', 'no wait is needed');
    is readlink "/proc/$pid/fd/$_", '/dev/null', "descriptor $_ lets go of the terminal" for 0, 1;
    my @again = plackup('--pid', "$dir/other", "$dir/app.psgi");
    is $again[1], 1, 'an address that is taken is a failed start';
    like $again[3], qr/^howdah: cannot listen on \Q$dir\E\/app\.sock: /m, 'with the reason';
    kill TERM => $pid;
    ok wait_for_end($pid), 'it ends';
    my ($none, $failed, undef, $err) = plackup('--no-such-option', 1, "$dir/app.psgi");
    is "$failed", 1;
    like $err, qr/unexpected argument '--no-such-option'/, 'so does the command line';
};

subtest 'a signal that the application handles does not end the wait of plackup' => sub {
    my ($pid, $status) = plackup('-E', 'test', '-e', '$SIG{CHLD} = sub { }; sub { }');
    is $status, 0 or diag read_if_any("$dir/log");
    kill TERM => $pid if $pid;
    ok wait_for_end($pid), 'it ends';
};

subtest 'plackup -L Delayed: workers that cannot load the application are a failed start' => sub {
    my (undef, $status) = plackup('-L', 'Delayed', '-E', 'test', '-e', 'die "oho"');
    is $status, 1;
};

subtest 'plackup -r cannot end a server in the background' => sub {
    require Plack::Handler::Howdah;
    local $INC{'Plack/Loader/Restarter.pm'} = 1;
    is(
        eval {
            Plack::Handler::Howdah->new(daemonize => 1)->run(sub { });
        },
        undef
    );
    like $@, qr/^-r and -D .* write howdah -r -D$/;
};

done_testing;
