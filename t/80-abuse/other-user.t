# An application that --user has made another's, and that wants of root's front what only root may do.
use strict;
use warnings;
use lib 't/lib';

use Fcntl qw(O_NOCTTY O_NONBLOCK O_RDWR);
use File::Temp ();
use Howdah::Test::Client;
use Howdah::Test::Command qw(howdah_bin run_command run_howdah);
use Howdah::Test::File qw(read_file write_file);
use Howdah::Test::Operator;
use Howdah::Test::Server;
use IO::Socket::UNIX;
use POSIX qw(uname);
use Socket qw(SOCK_STREAM pack_sockaddr_un);
use Test::More;

# A terminal of our own: ioctl_tty(2). The numbers are those of most architectures.
use constant {TIOCGPTN => 0x80045430, TIOCSPTLCK => 0x40045431};

plan skip_all => 'only root can become somebody else' if $> != 0;
my $uid = getpwnam 'nobody';
plan skip_all => 'there is no user nobody' if !defined $uid;

sub start {
    my ($app, @options) = @_;
    return Howdah::Test::Server->start(options => ['--workers', 1, '--user', 'nobody', @options, '-e', $app]);
}

sub ask {
    my ($server, $path) = @_;
    return Howdah::Test::Client->ask($server, "GET $path HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
}

# A pseudo terminal, and its path.
sub terminal {
    sysopen my $master, '/dev/ptmx', O_RDWR | O_NOCTTY | O_NONBLOCK or plan skip_all => "no pseudo terminals: $!";
    my ($number, $unlock) = (pack('I', 0), pack 'i', 0);
    ioctl $master, TIOCSPTLCK, $unlock and ioctl $master, TIOCGPTN, $number
        or plan skip_all => "no pseudo terminal: $!";
    return ($master, '/dev/pts/' . unpack 'I', $number);
}

# A process that has done that, and is to be killed.
sub sleeper {
    my $first = shift;
    my $pid   = fork // die $!;
    return $pid if $pid;
    $first->();
    sleep 100;
    POSIX::_exit(0);
}

sub as_nobody {
    my $what = shift;
    local $> = $uid;
    return $what->();
}

# The zygote's socket, by which the front hears who the workers are that it is to kill, is open while the application is loaded.
subtest 'it calls a process of root a worker of its own' => sub {
    my $server = start(<<'PSGI');
my $parent = getppid;
my @launchers;
for my $file (glob '/proc/[0-9]*/stat') {
    open my $stat, '<', $file or next;
    my ($pid, $of) = (<$stat> // '') =~ /^(\d+) \(.*\) \S (\d+)/s or next;
    open my $line, '<', "/proc/$pid/cmdline" or next;
    push @launchers, $pid if $of == $parent && (<$line> // '') =~ /launcher/;
}
open my $front, '+<&', 3 or die $!;
send $front, pack('L2l2', 3, 0, $_, 0), 0 for @launchers;
sub { sleep 30 if $_[0]{PATH_INFO} eq '/hang'; [200, [], [scalar @launchers]] };
PSGI
    is ask($server, '/')->{body}, 2, 'launchers, which are children of the front as orphans are';
    my $refused = () = $server->log =~ /calls a process its worker that is no child of it, which is left alone/g;
    is $refused, 2, '... are left alone' or diag $server->log;
    is $server->stop, 0, 'a clean end';
};

subtest 'it leads a log to where only root may write' => sub {
    my $operator = Howdah::Test::Operator->new;
    my $dir      = $operator->dir;
    chmod 0755, $dir or die $!;
    mkdir "$dir/$_" or die $! for qw(theirs secret);
    chown $uid, -1, "$dir/theirs" or die $!;
    my $log    = "$dir/theirs/access.log";
    my $server = start('sub { [200, [], ["served"]] }', $operator->options, '--access-log', $log);
    ask($server, '/before');
    rename $log, "$log.1" or die $!;
    as_nobody(sub { symlink "$dir/secret/new", $log or die $! });
    my ($status, undef, $err) = $operator->ask('reopen');
    is $status, 1, 'a log that was rotated is not opened by a link of theirs';
    my $why =
        qr{cannot open.*access\.log on its path is user ${uid}'s and leads to what is not, .*let root set the link};
    like $err, $why, '... and why';
    ask($server, '/after');
    is $server->stop, 0;
    ok !-e "$dir/secret/new", 'nothing was made there';
    like read_file("$log.1"), qr{/before.*/after}s, '... and the old log has all lines';

    for my $option ('--access-log', '--error-log') {
        my @wrong = ($option, $log, '-e', 'sub { }');
        my ($failed, undef, $why) = run_howdah('--listen', '127.0.0.1:0', @wrong);
        is $failed, 1, "a start with such an $option fails";
        like $why, qr/$option.*the symbolic link access\.log/, '... with the reason';
        ($failed, undef, my $checked) = run_howdah('check', @wrong);
        is $failed, 1, '... which check tells before';
        like $checked, qr/$option.*the symbolic link access\.log/;
    }
    ok !-e "$dir/secret/new";
};

subtest 'it asks for the keys of the session' => sub {
    my %call = (x86_64 => [248, 249, 250], aarch64 => [217, 218, 219]);
    my ($add, $request, $keyctl) = @{$call{(uname)[4]} // plan skip_all => 'the numbers of the calls are not known'};
    my ($type, $name, $secret)   = ('user', 'howdah-test', 'known to root');
    plan skip_all => 'there are no keys here'
        if syscall($keyctl, 1, 0) < 0 || syscall($add, $type, $name, $secret, length $secret, -3) < 0;
    my $asking = qq(sub { my (\$type, \$name) = qw($type $name);
        my \$key = syscall $request, \$type, \$name, 0, 0; [200, [], [\$key < 0 ? 'no key' : 'key']] });
    for my $as ([], ['--user', 'nobody']) {
        my $server = Howdah::Test::Server->start(options => ['--workers', 1, @$as, '-e', $asking]);
        is ask($server, '/')->{body}, @$as ? 'no key' : 'key', @$as ? 'those of root are not theirs' : 'root has it';
    }
    my $scripts = File::Temp->newdir(TMPDIR => 1);
    chmod 0755, "$scripts" or die $!;
    write_file("$scripts/key", "#!$^X\nprint qq(Content-Type: text/plain\\n\\n), ($asking)->()[2][0];\n");
    chmod 0755, "$scripts/key" or die $!;
    my $server = Howdah::Test::Server->start(options => ['--workers', 1, '--user', 'nobody', '--cgi', "/=$scripts"]);
    is ask($server, '/key')->{body}, 'no key', '... nor of a script';
};

subtest 'it reads the terminal that root has started the server on' => sub {
    my ($master, $terminal) = terminal();
    my $reading = 'use POSIX (); sub { POSIX::read(1, my $typed, 100); [200, [], [$typed || "no: $!"]] }';
    my $server  = Howdah::Test::Server->start(
        command => ['sh', '-c', "exec \"\$@\" 1<>$terminal", 'sh', howdah_bin(), '--listen', '127.0.0.1:0'],
        options => ['--workers', 1, '--user', 'nobody', '-e', $reading]
    );
    syswrite $master, "password\n" or die $!;
    like ask($server, '/')->{body}, qr/^no: Bad file descriptor/, 'it may only write there';

    my ($plackup) = grep { -x } map { "$_/plackup" } split /:/, $ENV{PATH};
    my @plackup = ($^X, $plackup // return, qw(-s Howdah -l 127.0.0.1:0 -E deployment --user nobody --workers 1));
    $server = Howdah::Test::Server->start(
        command => ['sh', '-c', "exec \"\$@\" 0<>$terminal", 'sh', @plackup],
        app     =>
            'use POSIX (); sub { my $got = POSIX::read(0, my $typed, 100); [200, [], [$got > 0 ? $typed : "nothing"]] }'
    );
    syswrite $master, "password\n" or die $!;
    is ask($server, '/')->{body}, 'nothing', '... also where plackup has loaded it, whose standard input that is';
};

subtest 'it says what a terminal takes for orders' => sub {
    my $operator = Howdah::Test::Operator->new;
    my $app      = 'die "\e]0;mine\a\e[31mred\nand \x{e9}\n" if -e $ENV{MARK}; sub { [200, [], []] }';
    local $ENV{MARK} = $operator->dir . '/mark';
    my $server = start($app, $operator->options);
    chmod 0755, $operator->dir or die $!;
    write_file($ENV{MARK}, '');
    my ($status, undef, $err) = $operator->ask('reload');
    is $status, 1, 'code that does not load';
    like $err, qr/does not load.*\\x1b\]0;mine\\x07\\x1b\[31mred\nand /,
        '... cannot say it by howdah reload, whose lines are lines';
    unlike $err, qr/[\e\a]/;
    my ($failed, undef, $why) =
        run_howdah('--listen', '127.0.0.1:0', '--control', $operator->dir . '/other', '-e', $app);
    is $failed, 1;
    like $why, qr/does not load.*\\x1b\]0;mine/, '... nor by a start that fails';
};

subtest 'it calls what /proc hides a worker of its own' => sub {
    my @hide = (
        'unshare', '--mount', 'sh', '-c', 'mount -t proc -o hidepid=invisible,gid=54321 proc /proc && exec "$@"',
        'sh'
    );
    plan skip_all => 'no such /proc can be had here' if (run_command(@hide, 'true'))[0];
    my @victims = (sleeper(sub { POSIX::setsid() }), sleeper(sub { }));
    my $naming  = q{my $parent = getppid; open my $front, '+<&', 3 or die $!;
        send $front, pack('L2l2', 3, 0, $_, 0), 0 for split(/ /, $ENV{VICTIMS}), $parent; sub { [200, [], [$$]] }};
    my $server = Howdah::Test::Server->start(
        command => [@hide, howdah_bin(), '--listen', '127.0.0.1:0'],
        options => ['--workers', 1, '--user', 'nobody', '-e', $naming],
        env     => {VICTIMS => "@victims"}
    );
    my $refused = () = $server->log =~ /calls a process its worker that is no child of it, which is left alone/g;
    is $refused, 3, 'processes of root in other sessions and in the front\'s, and the front, are left alone'
        or diag $server->log;
    like ask($server, '/')->{body}, qr/^\d+$/, '... and the worker that there is, is known';
    is $server->stop, 0, 'a clean end';
    is kill(0, @victims), 2, '... not of the others';
    kill KILL => @victims;
    waitpid $_, 0 for @victims;
};

# A module that notes by whom it is run, and whether root's terminal is there and a listening socket of the server's.
sub noting {
    my $dir = shift;
    write_file("$dir/Whose.pm", <<"PERL");
package Whose;
open my \$notes, '>>', '$dir/notes' or die \$!;
our \@kept;
for my \$number (3 .. 30) { open my \$fd, "<&=\$number" or next; push \@kept, \$fd }
my \@listening = grep { unpack 'i', getsockopt(\$_, 1, 30) // '' } \@kept;
my \$terminal = open(my \$own, '+<', '/dev/tty') ? 'terminal' : 'none';
print {\$notes} join(' ', \$<, \$>, \$( + 0, \$) + 0, \$terminal, scalar \@listening), "\\n";
1;
PERL
    open my $notes, '>', "$dir/notes" or die $!;
    chown $uid, -1, "$dir", "$dir/notes" or die $!;
    chmod 0755, "$dir" or die $!;
    return;
}

subtest 'it has the directory from which perl loads modules' => sub {
    my $dir = File::Temp->newdir(TMPDIR => 1);
    noting($dir);
    local $ENV{PERL5LIB} = join ':', grep { defined } $ENV{PERL5LIB}, "$dir";
    my ($gid)  = (getpwuid $uid)[3];
    my $nobody = "$uid $uid $gid $gid none 0\n";
    my $given  = q{$^F = 99; socket my $l, 2, 1, 0 or die $!; listen $l, 5 or die $!; POSIX::dup2(fileno $l, 3);
        $ENV{LISTEN_PID} = $$; $ENV{LISTEN_FDS} = 1; $ENV{PERL5OPT} = '-MWhose'; exec @ARGV};
    for my $confined ([], ['--no-confine']) {
        my $operator = Howdah::Test::Operator->new;
        my $server   = Howdah::Test::Server->start(
            command => [$^X, '-MPOSIX', '-e', $given, howdah_bin()],
            options => ['--user', 'nobody', $operator->options, @$confined, '-e', 'sub { [200, [], ["served"]] }']
        );
        is ask($server, '/')->{body}, 'served';
        is + ($operator->ask('reload'))[0], 0, "@$confined a reload";
        is $server->stop, 0;
        my $notes = read_file("$dir/notes");
        like $notes, qr/\A(?:\Q$nobody\E){3,}\z/, '... and no line of perl was run by root';
        truncate "$dir/notes", 0 or die $!;
    }
    my ($master, $terminal) = terminal();
    my $lead  = 'use POSIX (); POSIX::setsid() > 0 && open STDIN, "+<", shift or die $!; exec @ARGV';
    my @check = ('env', 'PERL5OPT=-MWhose', howdah_bin(), qw(check --user nobody -e), 'sub { }');
    is + (run_command($^X, '-e', $lead, $terminal, @check))[0], 0, 'howdah check';
    like read_file("$dir/notes"), qr/\A(?:\Q$nobody\E){2,}\z/, '... runs none by root, and has left his terminal';
    truncate "$dir/notes", 0 or die $!;
    $check[5] = 'no-such-user';
    is + (run_command(@check))[0], 1, 'for a user who is not there';
    is read_file("$dir/notes"), '', '... it runs none at all';
};

subtest 'it listens where root is to, and accepts nobody' => sub {
    my $dir      = File::Temp->newdir(TMPDIR => 1);
    my $path     = "$dir/socket";
    my $listener = IO::Socket::UNIX->new(Local => $path, Listen => 1) or die $!;
    my @waiting;
    while (@waiting < 100 and my $client = IO::Socket::UNIX->new(Type => SOCK_STREAM, Blocking => 0)) {
        last if !connect $client, pack_sockaddr_un($path);
        push @waiting, $client;
    }
    cmp_ok scalar @waiting, '<', 100, 'its queue is full';
    my ($status, undef, $err) = run_howdah('--listen', "unix:$path", '-e', 'sub { }');
    is $status, 1, 'a start ends';
    like $err, qr/cannot listen on \Q$path\E: .*another server answers there/, '... and says why';
    ($status, undef, $err) = run_howdah('--listen', '127.0.0.1:0', '--control', $path, '-e', 'sub { }');
    is $status, 1, 'so does one with such a control socket';
    like $err, qr/another server answers at \Q$path\E/;
};

done_testing;
