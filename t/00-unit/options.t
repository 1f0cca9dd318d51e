# The command line as a process: messages, exit status, HOWDAH_* variables. What each option parses to is
# tested beside its declaration in crates/howdah/src/options.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Command qw(howdah_bin run_command run_howdah);
use Test::More;

subtest 'what could not be printed is no success' => sub {
    for my $arguments (['-h'], ['--help'], ['--version'], [qw(check --listen 127.0.0.1:0 -e), 'sub {}'], ['man']) {
        my ($status, undef, $err) = run_command('/bin/sh', '-c', '"$0" "$@" >/dev/full', howdah_bin(), @$arguments);
        is $status, 1, "@$arguments";
        like $err, qr/^howdah: cannot write to standard output: No space left/;
    }
};

subtest 'who has read enough leaves no failure behind' => sub {
    my @check = (howdah_bin(), qw(check --listen 127.0.0.1:0 -e), 'sub {}');
    my ($status, undef, $err) = run_command('/bin/bash', '-c', '"$0" "$@" | true; exit ${PIPESTATUS[0]}', @check);
    is $status, 0;
    is $err, '';
};

subtest '--help is grouped and fits a page' => sub {
    my ($status, $out) = run_howdah('-h');
    is $status, 0;
    like $out, qr/^$_:$/m, $_ for 'Application', 'Listening', 'Workers', 'Requests and connections', 'Process';
    cmp_ok scalar(() = $out =~ /\n/g), '<', 110, 'short help stays short';
    is_deeply [grep { length > 100 } split /\n/, $out], [], 'and narrow';
    for my $command (qw(trace status reload)) {
        my ($shown) = (run_howdah($command, '-h'))[1] =~ /^Options:\n(.*)/ms;
        like $shown, qr/^ +--name /m, "$command has its own options in one group";
        unlike $shown, qr/^\w.*:$/m;
    }
    like + (run_howdah('--help'))[1], qr/^Exit status:$/m, 'the long one has the exit status';
    like + (run_howdah('--help'))[1], qr{share/doc/howdah/}, 'and where the pages are that messages name';
};

subtest '--version' => sub {
    for my $flag (qw(--version -V -v)) {
        my ($status, $out) = run_howdah($flag);
        is $status, 0, $flag;
        like $out, qr/^howdah \d+\.\d+\.\d+(?: \(not built as a release: [^()\n]+\))?$/;
    }
};

subtest 'unknown options are refused with a suggestion' => sub {
    my @cases = (
        [['--wokers', 3], qr/'--workers'/],
        [['--max-request', 3], qr/'--max-requests'/],
        [['--enable-ssl'], qr/name the files of certificate and key: --tls-cert FILE/],
        [['check', '--wokers', 3], qr/'--workers'/],
    );
    for my $case (@cases) {
        my ($status, $out, $err) = run_howdah(@{$case->[0]});
        is $status, 2, "@{$case->[0]}";
        is $out, '';
        like $err, $case->[1];
    }
};

subtest 'a bad value is named with its option, its source and the way out' => sub {
    my ($status, undef, $err) = run_howdah('--max-body-size', 'lots', '-e', 'sub {}');
    is $status, 2;
    like $err, qr/'lots' for '--max-body-size <SIZE>': not a size: write a number of bytes/;

    ($status, undef, $err) = run_howdah('--access-log-format', 'Combined', '-e', 'sub {}');
    is $status, 2;
    like $err, qr/--access-log-format: .*'Combined' has no directive.*: name one of combined, common, ltsv, json/;

    for my $command ('serve', 'check') {
        ($status, undef, $err) =
            run_howdah($command, '--spool-dir', '/proc', '--listen', '127.0.0.1:0', '-e', 'sub {}');
        is $status, 1, $command;
        like $err,
            qr{^howdah: --spool-dir /proc: no file can be made there: .*; name a directory that can be written$}m;
    }

    local $ENV{HOWDAH_HEADER_TIMEOUT} = 'soon';
    ($status, undef, $err) = run_howdah('-e', 'sub {}');
    is $status, 2;
    like $err, qr/the environment has HOWDAH_HEADER_TIMEOUT=soon/;
};

subtest 'a number is too much in the units of its option, however much it is' => sub {
    for my $case (
        ['--slow-log=99999999999999999999', 'too long: times end at 8760h'],
        ['--slow-log=9000h', 'too long: times end at 8760h'],
        ['--header-timeout=99999999999999999999', 'too long: times end at 8760h'],
        ['--max-body-size=99999999999999999999', 'too large: sizes end below 16 EiB'],
        ['--slow-log=soon', 'not a time: write milliseconds'],
        )
    {
        my ($status, undef, $err) = run_howdah('check', $case->[0], '-e', 'sub {}');
        is $status, 2, $case->[0];
        like $err, qr/\Q$case->[1]\E/;
    }
};

subtest 'a host is no address with a port, no path and not nothing' => sub {
    for my $host ('', '127.0.0.1:80', '/run/app.sock', '::1:x', 'a b') {
        my ($status, undef, $err) = run_howdah('check', "--host=$host", '-e', 'sub {}');
        is $status, 2, "--host='$host'";
        like $err, qr/'\Q$host\E' for '--host <HOST>': .* HOST:PORT and paths by --listen/;
    }
    local $ENV{HOWDAH_HOST} = '';
    like + (run_howdah('check', '-e', 'sub {}'))[2], qr/^ *tip: the environment has HOWDAH_HOST=$/m,
        'nor by a variable';
    delete local $ENV{HOWDAH_HOST};
    my ($status, $out) = run_howdah('check', '--host=*', '--port=81', '-e', 'sub {}');
    is $status, 0, '* is every address';
    like $out, qr/^listen +:81 /m;
};

subtest 'a variable that is wrong is told, with the way out' => sub {
    for my $case (
        [HOWDAH_NO_STATUS => 'enabled', qr/a switch is on or off: write 1 or 0$/m],
        [HOWDAH_NO_STATUS => 'enabled', qr/the environment has HOWDAH_NO_STATUS=enabled/],
        [HOWDAH_HSTS      => 'soon', qr/the environment has HOWDAH_HSTS=soon/],
        )
    {
        my ($name, $value, $told) = @$case;
        local $ENV{$name} = $value;
        my ($status, undef, $err) = run_howdah('-e', 'sub {}');
        is $status, 2, $name;
        like $err, $told;
    }
    for my $value (qw(yes On 1)) {
        local $ENV{HOWDAH_NO_STATUS} = $value;
        my ($status, $out) = run_howdah(qw(check --listen 127.0.0.1:0 -e), 'sub {}');
        like $out, qr/^no-status +true +HOWDAH_NO_STATUS$/m, "HOWDAH_NO_STATUS=$value";
    }
};

subtest 'so is one that is found wrong later' => sub {
    for my $case (
        [2, HOWDAH_CHDIR     => '/nonesuch'],
        [2, HOWDAH_APP       => 'nonesuch.psgi'],
        [2, HOWDAH_REFORK    => '90', qw(--max-requests 50)],
        [1, HOWDAH_TLS_CERT  => '/nonesuch.pem'],
        [1, HOWDAH_PID       => '/nonesuch/pid'],
        [1, HOWDAH_SPOOL_DIR => '/proc'],
        )
    {
        my ($expected, $name, $value, @more) = @$case;
        my @app = $name eq 'HOWDAH_APP' ? () : ('-e', 'sub {}');
        local $ENV{$name} = $value;
        for my $command ('serve', 'check') {
            my ($status, undef, $err) = run_howdah($command, @more, '--listen', '127.0.0.1:0', @app);
            is $status, $expected, "$command, $name" or diag $err;
            like $err, qr/^(?:error|howdah): --.* \(the environment has \Q$name=$value\E\)$/m;
        }
    }
    {
        local $ENV{HOWDAH_CGI_ENV} = "CITY=K\xF6ln";
        my ($status, undef, $err) = run_howdah('-e', 'sub {}');
        is $status, 2, 'no UTF-8';
        like $err, qr/the environment has HOWDAH_CGI_ENV=CITY=K.*ln/;
    }
    local $ENV{HOWDAH_CHDIR} = '/nonesuch';
    my (undef, undef, $err) = run_howdah('check', '--chdir', '/nowhere', '-e', 'sub {}');
    like $err, qr/--chdir \/nowhere: there is no such directory$/m, 'not where the command line has it';
    unlike $err, qr/the environment/;
};

subtest 'what is no file is no application' => sub {
    for my $name ('', './t') {
        my ($status, undef, $err) = run_howdah('check', '--app', $name);
        is $status, 2, "'$name'";
        like $err, qr/there is no application (?:without a name|t): name a \.psgi file/;
    }
};

subtest 'an empty list of directories is none' => sub {
    local $ENV{HOWDAH_INCLUDE} = '';
    my ($status, undef, $err) = run_howdah('check', '--listen', '127.0.0.1:0', '-e', 'sub {}');
    is $status, 0;
    is $err, '', 'of which there is nothing to be said';
};

subtest 'HOWDAH_HSTS is a switch, or a time' => sub {
    for my $case ([1 => '8760h'], [0 => '-'], ['30m' => '30m'], ['1s' => '1s'], ['0s' => '0']) {
        local $ENV{HOWDAH_HSTS} = $case->[0];
        my ($status, $out, $err) = run_howdah('check', qw(--acme a.example --acme-dir t), '-e', 'sub {}');
        is $status, 0 or diag $err;
        like $out, qr/^hsts +\Q$case->[1]\E +HOWDAH_HSTS$/m, "HOWDAH_HSTS=$case->[0]";
    }
};

subtest 'a variable that sets nothing is told, with what was meant' => sub {
    my @cases = (
        [HOWDAH_WROKERS     => 'did you mean HOWDAH_WORKERS?'],
        [HOWDAH_MAX_WORKERS => 'write HOWDAH_WORKERS'],
        [HOWDAH_ENABLE_SSL  => 'name the files of certificate and key: --tls-cert FILE --tls-key FILE'],
        [HOWDAH_MOOD        => 'it sets nothing; howdah --help lists the options, each of which has a variable'],
    );
    for my $case (@cases) {
        my ($name, $way) = @$case;
        local $ENV{$name} = 3;
        my ($status, undef, $err) = run_howdah('man');
        is $status, 0, $name;
        is $err, "howdah: warning: $name is not a variable of Howdah's: $way\n";
    }
    local $ENV{HOWDAH_LOG} = 'info';
    is + (run_howdah('man'))[2], '', 'those that are Howdah\'s are not told';
};

subtest 'lines that end as Windows ends them are told, of whatever option' => sub {
    for my $case ([HOWDAH_WORKERS => 2], [HOWDAH_ACCESS_LOG => 'a.log'], [HOWDAH_LISTEN => '/run/x.sock']) {
        my ($name, $value) = @$case;
        local $ENV{$name} = "$value\r";
        for my $command ('check', 'status') {
            my ($status, undef, $err) = run_howdah($command, $command eq 'check' ? ('-e', 'sub {}') : ());
            is $status, 2, "$command with $name";
            like $err, qr/^error: $name ends in a carriage return: .* \(sed -i 's\/\\r\$\/\/' FILE\)$/m;
        }
    }
};

subtest 'variables of any content are read or refused in words' => sub {
    for my $value ('', '0', '-1', "\xff", '%', ':', ',', '18446744073709551616') {
        for my $name (qw(HOWDAH_LISTEN HOWDAH_WORKERS HOWDAH_DAEMONIZE HOWDAH_ACCESS_LOG_FORMAT HOWDAH_NAME)) {
            local $ENV{$name} = $value;
            my ($status, undef, $err) = run_howdah('check', '-e', 'sub {}');
            like $status, qr/^[012]$/, "$name='$value'";
            unlike $err, qr/panicked/;
        }
    }
};

subtest 'commands that there are not, and applications that are one too many' => sub {
    my @cases = (
        [['stats'], qr/there is no command 'stats': did you mean howdah status\?/],
        [['start', 'app.psgi'], qr/there is no command 'start': howdah APP serves an application/],
        [['a.psgi', 'b.psgi'], qr/b\.psgi is a second application beside a\.psgi/],
        [['--master', '--http', ':80', 'a.psgi'], qr/tip: leave it out: the front/],
    );
    for my $case (@cases) {
        my ($status, $out, $err) = run_howdah(@{$case->[0]});
        is "$status$out", 2, "@{$case->[0]}";
        like $err, $case->[1];
    }
};

subtest 'a mount that is none is refused with the way out' => sub {
    my $app   = 't/apps/echo.psgi';
    my @cases = (
        [["admin=$app"], qr{'admin=\Q$app\E' for '--mount <PATH=FILE>': .* write /admin=FILE}],
        [['/admin=absent.psgi'], qr{--mount /admin: there is no application absent\.psgi}],
        [['/admin=a,b.psgi'], qr{'b\.psgi' is no OPTION=VALUE.*comma}],
        [["/a=$app", "/a/=$app"], qr{--mount /a is given twice}],
        [["/=$app"], qr{--mount /: \Q$app\E is there already}],
        [["/a=$app,workers=lots"], qr{not a whole number from 1}],
        [["/a=$app,listen=:80"], qr{'listen' is none of the options that a mount may have: workers, }],
        [["/a=$app,workers=1,min-workers=2"], qr{--mount /a: min-workers is above workers}],
    );
    for my $case (@cases) {
        my @mounts = map { ('--mount', $_) } @{$case->[0]};
        my ($status, $out, $err) = run_howdah('check', @mounts, $app);
        is "$status$out", 2, "@mounts";
        like $err, $case->[1];
    }
};

subtest 'the manual page and the completions know every option' => sub {
    my ($help) = (run_howdah('--help'))[1];
    my %long = map { $_ => 1 } $help =~ /^(?:  -\w, | {6})--([a-z][a-z\d-]+)/mg;
    cmp_ok scalar keys %long, '>', 30, 'options in --help';

    (my $page = (run_howdah('man'))[1]) =~ s{\\(f[BIR]|(-))}{$2 // ''}ge;
    is_deeply [grep { $page !~ /--\Q$_\E/ } sort keys %long], [], 'all in the manual page';
    my @variables = map { 'HOWDAH_' . uc tr/-/_/r } grep { !/^(?:help|version)$/ } sort keys %long;
    is_deeply [grep { $page !~ /\b\Q$_\E\b/ } @variables], [], 'which has their variables';

    for my $shell (qw(bash zsh fish)) {
        my ($status, $script) = run_howdah('completions', $shell);
        is $status, 0, $shell;
        is_deeply [grep { $script !~ /\Q$_\E/ } sort keys %long], [], 'completes them all';
        like $script, qr/\bon ?off\b|\bon\b.*\boff\b/s, 'and on and off';
        unlike $script, qr/true[ \\t']+false/, 'in these words';
    }
};

subtest 'help and manual page know every command and what it takes' => sub {
    my ($commands) = (run_howdah('-h'))[1] =~ /^Commands:\n(.*?)\n\n/ms;
    my @commands = grep { !/^(?:serve|check)$/ } $commands =~ /^  (\w+)/mg;
    cmp_ok scalar @commands, '>', 10, 'commands in -h';
    my $help = (run_howdah('--help'))[1];
    is_deeply [grep { $help !~ /^  howdah \Q$_\E\b/m } @commands], [], 'all in the section on them';
    (my $page = (run_howdah('man'))[1]) =~ s{\\(f[BIR]|(-))}{$2 // ''}ge;
    for my $command (@commands) {
        my ($section) = $page =~ /^\.SS "howdah \Q$command\E"\n(.*?)^\.S[SH] /ms;
        my @long = grep { !/^(?:help|name|control)$/ }
            (run_howdah($command, '--help'))[1] =~ /^(?:  -\w, | {6})--([a-z][a-z-]+)/mg;
        is_deeply [grep { ($section // '') !~ /^(?:-\w, )?--\Q$_\E\b/m } @long], [], "$command: @long";
    }
};

subtest 'scripts that cannot be served are refused with the way out' => sub {
    my @cases = (
        [['/cgi=absent'], qr{--cgi /cgi: there is no absent: name the directory of the scripts, or one script}],
        [['cgi=t'], qr{'cgi=t' for '--cgi <PATH=DIR>': .* write /cgi=DIR}],
        [['/a=t,mode=fast'], qr{'fast' is no mode: write auto, exec, fork or keep}],
        [['/a=t,worker=2'], qr{'worker' is none of the options that scripts may have: mode, index, preload, }],
        [['/a=t', '/a=lib'], qr{--cgi /a is given twice}],
        [['/a=t', '--cgi-env', 'REMOTE_ADDR=x'], qr{REMOTE_ADDR is for the server to set}],
    );
    for my $case (@cases) {
        my @options = map { /^--|^\w+=x$/ ? $_ : ('--cgi', $_) } @{$case->[0]};
        my ($status, $out, $err) = run_howdah('check', @options);
        is "$status$out", 2, "@options";
        like $err, $case->[1];
    }
};

done_testing;
