# The command line as a process: messages, exit status, HOWDAH_* variables. What each option parses to is
# tested beside its declaration in crates/howdah/src/options.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Command qw(run_howdah);
use Test::More;

subtest '--help is grouped and fits a page' => sub {
    my ($status, $out) = run_howdah('-h');
    is $status, 0;
    like $out, qr/^$_:$/m, $_ for 'Application', 'Listening', 'Workers', 'Requests and connections', 'Process';
    cmp_ok scalar(() = $out =~ /\n/g), '<', 90, 'short help stays short';
    is_deeply [grep { length > 100 } split /\n/, $out], [], 'and narrow';
    like + (run_howdah('--help'))[1], qr/^Exit status:$/m, 'the long one has the exit status';
};

subtest '--version' => sub {
    for my $flag (qw(--version -V -v)) {
        my ($status, $out) = run_howdah($flag);
        is $status, 0, $flag;
        like $out, qr/^howdah \d+\.\d+\.\d+$/;
    }
};

subtest 'unknown options are refused with a suggestion' => sub {
    my @cases = (
        [['--wokers', 3], qr/'--workers'/],
        [['--max-request', 3], qr/'--max-requests'/],
        [['--tls-cert-file', 'x'], qr/TLS is not served/],
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

    local $ENV{HOWDAH_HEADER_TIMEOUT} = 'soon';
    ($status, undef, $err) = run_howdah('-e', 'sub {}');
    is $status, 2;
    like $err, qr/the environment has HOWDAH_HEADER_TIMEOUT=soon/;
};

subtest 'a misspelt variable warns, a foreign one does not' => sub {
    local $ENV{HOWDAH_WROKERS}        = 3;
    local $ENV{HOWDAH_SOMETHING_ELSE} = 3;
    my ($status, undef, $err) = run_howdah('man');
    is $status, 0;
    is $err, "howdah: warning: HOWDAH_WROKERS is not a variable of Howdah's; did you mean HOWDAH_WORKERS?\n";
};

subtest 'the manual page and the completions know every option' => sub {
    my ($help) = (run_howdah('--help'))[1];
    my %long = map { $_ => 1 } $help =~ /^(?:  -\w, | {6})--([a-z][a-z-]+)/mg;
    cmp_ok scalar keys %long, '>', 30, 'options in --help';

    (my $page = (run_howdah('man'))[1]) =~ s{\\(f[BIR]|(-))}{$2 // ''}ge;
    is_deeply [grep { $page !~ /--\Q$_\E/ } sort keys %long], [], 'all in the manual page';
    my @variables = map { 'HOWDAH_' . uc tr/-/_/r } grep { !/^(?:help|version)$/ } sort keys %long;
    is_deeply [grep { $page !~ /\b\Q$_\E\b/ } @variables], [], 'which has their variables';

    for my $shell (qw(bash zsh fish)) {
        my ($status, $script) = run_howdah('completions', $shell);
        is $status, 0, $shell;
        is_deeply [grep { $script !~ /\Q$_\E/ } sort keys %long], [], 'completes them all';
    }
};

done_testing;
