# `howdah check`: compiles the application and prints every option with its value and its source.
use strict;
use warnings;
use lib 't/lib';

use File::Temp qw(tempdir);
use Howdah::Test::Command qw(howdah_bin run_command run_howdah);
use Howdah::Test::File qw(write_file);
use POSIX ();
use Test::More;

my $dir = tempdir(CLEANUP => 1);

sub application { return write_file("$dir/$_[0]", $_[1]) }

my $good = application('good.psgi', 'sub { [200, [], ["ok"]] }');

subtest 'an application that compiles' => sub {
    my ($status, $out, $err) = run_howdah('check', $good);
    is $status, 0 or diag $err;
    is $err, '';
    like $out, qr/^\Q$good\E compiles with \S*perl$/m;
    like $out, qr/^listen +127\.0\.0\.1:5000 +default$/m;
    like $out, qr/^workers +\d+ +default, CPUs granted: \d+$/m;
    like $out, qr/^env +deployment +default$/m;
};

subtest 'the default number of workers follows the CPUs that may be used' => sub {
    my ($taskset) = grep { -x "$_/taskset" } split /:/, $ENV{PATH};
    plan skip_all => 'there is no taskset' if !$taskset;
    my ($status, $out) = run_command('taskset', '-c', 0, howdah_bin(), 'check', $good);
    is $status, 0;
    like $out, qr/^workers +4 +default, CPUs granted: 1$/m;
};

subtest 'each value has its source' => sub {
    local $ENV{HOWDAH_MAX_QUEUE}         = 77;
    local $ENV{HOWDAH_WORKERS}           = 5;
    local $ENV{HOWDAH_DISABLE_KEEPALIVE} = 1;
    local $ENV{PLACK_ENV}                = 'staging';
    my ($status, $out) = run_howdah('check', '--workers', 3, '-p', 8080, $good);
    is $status, 0;
    like $out, qr/^workers +3 +command line$/m;
    like $out, qr/^max-queue +77 +HOWDAH_MAX_QUEUE$/m;
    like $out, qr/^disable-keepalive +true +HOWDAH_DISABLE_KEEPALIVE$/m;
    like $out, qr/^env +staging +PLACK_ENV$/m;
    like $out, qr/^listen +:8080 /m;
    like $out, qr/^app +\Q$good\E +command line$/m;
};

subtest 'listeners of the command line put those of the environment aside' => sub {
    local $ENV{HOWDAH_LISTEN} = ':81,:82';
    like + (run_howdah('check', $good))[1], qr/^listen +:81 :82 +HOWDAH_LISTEN$/m;
    like + (run_howdah('check', '-l', ':80', $good))[1], qr/^listen +:80 +command line$/m;
    local $ENV{HOWDAH_HOST} = '127.0.0.1';
    like + (run_howdah('check', '-p', '80', $good))[1], qr/^listen +127\.0\.0\.1:80 /m, 'host and port belong together';
};

subtest 'an application that does not compile: its message and status 1' => sub {
    my $bad = application('bad.psgi', "use strict;\nmy \$x = ;\nsub {}");
    my ($status, $out, $err) = run_howdah('check', $bad);
    is $status, 1;
    is $out, '';
    like $err, qr/syntax error at \Q$bad\E line 2/;
    like $err, qr/does not compile/;
};

subtest 'one that ends perl, or puts another program in its place, has not been loaded' => sub {
    for my $case (
        ['exit 0', qr/ ends perl while it is loaded/], ['exec "true"', qr/ ends perl while it is loaded/],
        ['exit 86', qr/ does not compile/], ['END { $? = 0 } die', qr/./]
        )
    {
        my ($code, $expected) = @$case;
        my ($status, $out, $err) = run_howdah('check', '-e', $code);
        is $status, 1, $code;
        like $err, $expected;
        is $out, '';
    }
    is + (run_howdah('check', '-e', 'END { $? = 3 } sub { }'))[0], 0, 'what it would end with is no matter';
};

subtest 'what is no application is refused' => sub {
    my $nothing = application('nothing.psgi', '42');
    my ($status, undef, $err) = run_howdah('check', $nothing);
    is $status, 1;
    like $err, qr/nothing\.psgi/;
    is + (run_howdah('check', "$dir/absent.psgi"))[0], 2, 'a missing file is a mistake in the command line';
};

subtest 'code, modules and include directories' => sub {
    mkdir "$dir/lib" or die $!;
    application('lib/OfMine.pm', 'package OfMine; sub answer { 42 } 1');
    is + (run_howdah('check', "-I$dir/lib", '-MOfMine', '-e', 'OfMine::answer() == 42 or die; sub {}'))[0], 0;
    is + (run_howdah('check', '-MNo::Such::Module::Here', '-e', 'sub {}'))[0], 1;
};

subtest 'each mounted application is loaded, too' => sub {
    my ($more, $bad) = (application('more.psgi', 'sub {}'), application('bad.psgi', "die 'no luck';\nsub {}"));
    my ($status, $out, $err) = run_howdah('check', '--mount', "/more=$more,workers=2", $good);
    is $status, 0 or diag $err;
    like $out, qr/^\Q$_\E compiles with /m for $good, $more;
    like $out, qr{^mount +/more=\Q$more\E,workers=2 +command line$}m;

    local $ENV{HOWDAH_MOUNT} = "/more=$more;/bad=$bad";
    ($status, $out, $err) = run_howdah('check', $good);
    is "$status$out", 1, 'one that does not compile';
    like $err, qr/no luck/;
    like $err, qr/\Q$bad\E does not compile: see perl's message above/;
};

subtest 'each Perl script of a mount is compiled' => sub {
    mkdir "$dir/cgi" or die $!;
    application('cgi/good.pl', "#!$^X -T\nuse strict;\n");
    application('cgi/env.cgi', "#!/bin/sh\n");
    chmod 0755, glob "$dir/cgi/*";
    my ($status, $out, $err) = run_howdah('check', '--cgi', "/cgi=$dir/cgi");
    is $status, 0 or diag $err;
    like $out, qr{^CGI scripts of \Q$dir\E/cgi \(auto\) compile: 1 Perl script, and 1 other program$}m;

    application('cgi/bad.pl', "#!$^X\nuse strict;\n\$x = 1;\n");
    application('cgi/forgotten.pl', "#!$^X\n");
    chmod 0755, "$dir/cgi/bad.pl";
    ($status, $out, $err) = run_howdah('check', '--cgi', "/cgi=$dir/cgi,mode=exec", $good);
    is "$status$out", 1, 'one that does not compile';
    like $err, qr{cgi/bad\.pl: Global symbol "\$x" requires .* at \S+bad\.pl line 3\.};
    like $err, qr{cgi/forgotten\.pl is not executable: see chmod};
};

subtest 'scripts are compiled as requests would have them' => sub {
    mkdir "$dir/$_" or die $! for qw(scripts scripts/lib);
    application('scripts/lib/OfScripts.pm', 'package OfScripts; 1');
    application('scripts/needs.pl', "#!/usr/bin/perl\nuse OfScripts;\n");
    chmod 0755, "$dir/scripts/needs.pl";
    my $all = "/cgi=$dir/scripts";
    is + (run_howdah('check', '--cgi', $all, '--cgi-env', "PERL5LIB=$dir/scripts/lib"))[0], 0, 'with --cgi-env';
    is + (run_howdah('check', '--cgi', "$all,mode=keep", "-I$dir/scripts/lib"))[0], 0, 'kept ones with -I';
    local $ENV{PERL5LIB} = join ':', "$dir/scripts/lib", $ENV{PERL5LIB} // ();
    my ($status, undef, $err) = run_howdah('check', '--cgi', $all);
    is $status, 1, 'and without what the server has and does not pass on';
    like $err, qr{scripts/needs\.pl: Can't locate OfScripts\.pm};
    is + (run_howdah('check', '--cgi', $all, '--cgi-pass', 'PERL5LIB'))[0], 0, '... but with what it does';
    application('scripts/taint.pl', "#!/usr/bin/perl -T\n");
    chmod 0755, "$dir/scripts/taint.pl";
    ($status, undef, $err) = run_howdah('check', '--cgi', "$all,mode=keep");
    is $status, 1, 'what cannot be kept is told';
    like $err, qr{scripts/taint\.pl: perl can have the switch -T .*\(keep\) do not all compile}s;
};

subtest 'what the application prints while it loads is kept out of the table' => sub {
    my $chatty = application('chatty.psgi', 'print "noise\n"; sub { [200, [], []] }');
    my (undef, $out, $err) = run_howdah('check', $chatty);
    unlike $out, qr/noise/;
    like $err, qr/noise/;
};

subtest '--chdir comes before the application' => sub {
    is + (run_howdah('check', '--chdir', $dir, 'good.psgi'))[0], 0;
};

subtest 'it is compiled by the user who would run it' => sub {
    plan skip_all => 'only root can become somebody else' if $> != 0;
    plan skip_all => 'there is no user nobody' if !defined getpwnam 'nobody';
    my $private = application('private.psgi', 'sub { [200, [], []] }');
    chmod oct(600), $private or die $!;
    my ($status, undef, $err) = run_howdah('check', '--user', 'nobody', $private);
    is $status, 1;
    like $err, qr/\Q$private\E: Permission denied/;
    my $whose = application('whose.psgi', 'warn "loaded by ", scalar getpwuid $<; sub { [200, [], []] }');
    chmod oct(755), $dir or die $!;
    ($status, undef, $err) = run_howdah('check', '--user', 'nobody', '--chdir', $dir, 'whose.psgi');
    is $status, 0;
    like $err, qr/^loaded by nobody /m;
    mkdir "$dir/private" or die $!;
    application('private/a.pl', "#!/usr/bin/perl\n");
    chmod 0700, "$dir/private/a.pl" or die $!;
    my @as_nobody = ('--user', 'nobody', '--chdir', $dir, 'whose.psgi', '--cgi');
    ($status, undef, $err) = run_howdah('check', @as_nobody, "/cgi=$dir/private/a.pl");
    is $status, 1, 'a script that is not his';
    like $err, qr{private/a\.pl is not executable};
    ($status, undef, $err) = run_howdah('check', @as_nobody, "/cgi=$dir/private");
    like $err, qr{private/a\.pl is not executable}, '... among others';
    chmod 0755, "$dir/private/a.pl" or die $!;
    is + (run_howdah('check', @as_nobody, "/cgi=$dir/private"))[0], 0, 'one that is';
};

subtest 'what a start would fail for is told: users, certificates, places for logs' => sub {
    my @as_root = (
        [['--user', 'no-such-user'], qr/--user: there is no user 'no-such-user'/],
        [['--group', 'no-such-group'], qr/--group: there is no group 'no-such-group'/],
    );
    my @cases = (
        [['--tls-cert', "$dir/absent.pem"], qr{\Q$dir\E/absent\.pem: }],
        [['--tls-cert', $good], qr{\Q$good\E}],
        [['--access-log', '/no/such/log'], qr{--access-log /no/such/log: cannot be written: }],
        [['--error-log', '/no/such/log'], qr{--error-log /no/such/log: cannot be written: }],
        [
            ['--acme', 'a.example', '--acme-dir', "$good/acme"],
            qr{--acme-dir: \Q$good\E/acme/\S+ cannot be written: \Q$good\E: it is no directory}
        ],
        [['--pid', $dir], qr{--pid \Q$dir\E: cannot be written: it is a directory}],
        [['--slow-log', '9', '--slow-log-file', '/no/such/'], qr{--slow-log-file /no/such/: cannot be written: }],
        [['--pid', $good], qr{--pid \Q$good\E is there, and no file with a process id}],
        [['--pid', '/no/such/pid'], qr{--pid /no/such/pid: cannot be written: directory /no/such: }],
        [['--control', '/no/such/c.sock'], qr{control socket cannot be made: /no/such/c\.sock: directory /no/such: }],
        [['--control', $good], qr{control socket cannot be made: \Q$good\E is there and is no socket}],
        [['--control', '/' . 'c' x 108], qr{control socket cannot be made: \S+ has 109 bytes}],
        [['-l', '/no/such/a.sock'], qr{cannot listen on /no/such/a\.sock: directory /no/such: }],
        [['-l', $good], qr{cannot listen on \Q$good\E: it is there and is no socket}],
        [['-l', '/' . 'l' x 108], qr{cannot listen on \S+: it has 109 bytes}],
        [['--status-listen', '/no/such/a.sock'], qr{cannot listen on /no/such/a\.sock: }],
        [
            ['-l', 'nobody.invalid:80'],
            qr{cannot listen on nobody\.invalid:80: .*; name an address or a name of this machine}
        ],
        [['-o', 'nobody.invalid'], qr{cannot listen on nobody\.invalid:5000: }],
        [['--status-listen', '192.0.2.1:81'], qr{cannot listen on 192\.0\.2\.1:81: .*; name an address or a name}],
        $> == 0 ? @as_root : (),
    );
    for my $case (@cases) {
        my ($status, $out, $err) = run_howdah('check', @{$case->[0]}, $good);
        is "$status$out", 1, "@{$case->[0]}";
        like $err, $case->[1];
    }
    for my $case (
        ['-', 'errors go to standard error where no file is named'],
        ['|cat', 'it takes a file and no command']
        )
    {
        my ($status, $out, $err) = run_howdah('check', '--error-log', $case->[0], $good);
        is "$status$out", 2, "--error-log '$case->[0]'";
        like $err, qr/\Q$case->[1]\E/;
    }
    for my $case (['debugg', 'debugg is no level: say error'], ['howdah_front=much', 'howdah_front=much is no level']) {
        my ($filter, $expected) = @$case;
        local $ENV{HOWDAH_LOG} = $filter;
        my ($status, $out, $err) = run_howdah('check', $good);
        is "$status$out", 1, "HOWDAH_LOG=$filter";
        like $err, qr/^howdah: HOWDAH_LOG=\Q$filter: $expected/m;
        is + (run_howdah('check', '--log-level', 'warn', $good))[0], 0, '... which does not count beside --log-level';
    }
    my $too_many = join '', map { "%{V$_}e" } 1 .. 65;
    my ($refused, undef, $why) = run_howdah('check', '--access-log', '-', '--access-log-format', $too_many, $good);
    is $refused, 2, 'variables that find no room';
    like $why, qr/--access-log-format has more variables than fit: 64 /;
    my @few_files = ('sh', '-c', 'ulimit -n 40 && exec "$@"', 'sh');
    ($refused, undef, $why) = run_command(@few_files, howdah_bin(), 'check', '--workers', 20, $good);
    is $refused, 1, 'a limit of open files that is too low';
    like $why, qr/^howdah: the limit of open files is 40, and a start takes more than \d+, /m;
    my @soft = ('sh', '-c', 'ulimit -Sn 40 && exec "$@"', 'sh');
    is + (run_command(@soft, howdah_bin(), 'check', '--workers', 20, $good))[0], 0, '... and one that a start raises';

    my $log = "$dir/new.log";
    is + (run_howdah('check', '--access-log', $log, $good))[0], 0;
    ok !-e $log, 'and nothing is made';
    is + (run_howdah('check', '-l', "$dir/a.sock", '--control', "$dir/c.sock", '--pid', "$dir/pid", $good))[0], 0;
    is_deeply [grep { -e } map { "$dir/$_" } qw(a.sock c.sock pid)], [], 'nor here';
    is + (run_howdah('check', '-l', '/run/no/a.sock', '--control', '/run/no/c.sock', '--pid', '/run/no/pid', $good))[0],
        0,
        'a directory of /run may come with the service';
    my ($status, undef, $err) = run_howdah('check', '--access-log', "|touch $log", $good);
    is "$status$err", 0, 'a command is known';
    ok !-e $log, 'but not run';
    ($status, undef, $err) = run_command('env', 'TMPDIR=/proc', howdah_bin(), 'check', $good);
    is $status, 0, 'neither does a directory for large bodies that takes none';
    like $err, qr{^howdah: no file can be made in /proc: .* name another directory by --spool-dir$}m,
        '... which is told';
    ($status, undef, $err) = run_howdah('check', '--reload-dir', $good, $good);
    is "$status$err", "0howdah: --reload-dir $good is not watched: it is no directory\n", 'nor one that is not watched';
    POSIX::mkfifo("$dir/pipe", oct 600) or die $!;

    for my $option ('--access-log', '--error-log', '--slow-log=9 --slow-log-file') {
        my @options = split / /, $option;
        ($status, undef, $err) = run_howdah('check', @options, "$dir/pipe", $good);
        is $status, 0, "$option: nor a pipe that may have no reader";
        like $err,
            qr{^howdah: $options[-1] \Q$dir\E/pipe: it is a named pipe, without whose reader no server starts: }m,
            '... which is told';
    }
    ($status, undef, $err) = run_howdah('check', '--access-log', '|no-such-command', $good);
    is $status, 0, 'one that is missing ends no start';
    like $err, qr/^howdah: --access-log \|no-such-command: the shell finds no program no-such-command$/m,
        '... but is told';
};

done_testing;
