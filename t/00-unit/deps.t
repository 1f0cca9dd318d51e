# tools/deps has a list for what serves and one for what tests: `make run` installs nothing that only tests need.
use strict;
use warnings;
use lib 't/lib';

use File::Temp qw(tempdir);
use Howdah::Test::Command qw(run_command);
use Test::More;

# A machine of Debian's on which nothing is installed and everybody is root.
my $dir = tempdir(CLEANUP => 1);

sub program {
    my ($name, $text) = @_;
    open my $out, '>', "$dir/$name" or die $!;
    print {$out} "#!/bin/sh\n$text\n";
    close $out or die $!;
    return chmod 0755, "$dir/$name";
}
program('dpkg-query', 'exit 1');
program('id', 'echo 0');
program('apt-get', qq{echo "\$@" >>$dir/asked});
program('cargo', 'echo cargo 9.0.0');

# What apt knows: everything at first.
sub release_lacks {
    my $package = shift;
    return program('apt-cache', qq{[ "\$2" = $package ] || echo "\$2 | 1 | here"});
}
release_lacks('nothing');

# The packages that a machine without any is given.
sub packages {
    my @arguments = @_;
    unlink "$dir/asked";
    local $ENV{PATH} = "$dir:$ENV{PATH}";
    delete local $ENV{CARGO};
    my ($status, $out, $err) = run_command('tools/deps', @arguments);
    is $status, 0, "tools/deps @arguments" or diag "$out$err";
    open my $in, '<', "$dir/asked" or return;
    my ($install) = grep { /^install / } <$in>;
    return map { $_ => 1 } grep { !/^-|^install$/ } split ' ', $install // '';
}

my %to_run  = packages('run');
my %to_test = packages();
my %bench   = packages('bench');
my @run     = qw(gcc libc6-dev libcrypt-dev make perl libplack-perl libmodule-build-perl);
my @test    = qw(perltidy libperl-critic-perl libmojolicious-perl libdancer2-perl libtest-tcp-perl wrk apache2-utils
    strace curl python3 libdbd-sqlite3-perl librouter-simple-perl libplack-middleware-session-perl);

is_deeply [sort keys %to_run], [sort @run], 'what serves is what it takes to build and to load an application';
is_deeply [grep { !$to_test{$_} } @run, @test], [], 'what tests is all of that and more';
is_deeply [grep { !$bench{$_} } keys %to_test, 'starman', 'uwsgi-core'], [], 'what compares is all of that and more';
is + (run_command('tools/deps', 'everything'))[0], 2, 'another word is a mistake';
{
    local $ENV{CARGO} = "$dir/no-cargo";
    is + (run_command('tools/deps', 'everything'))[0], 2, '... also where there is no cargo';
    is + (run_command('tools/deps', 'run'))[0], 1, 'which is told for words that are none';
}

release_lacks('mimetex');
my %without = packages();
is_deeply [grep { !$without{$_} } keys %to_test], ['mimetex'], 'what a release does not have is passed over';
release_lacks('libplack-perl');
my %must = packages('run');
is_deeply [sort keys %must], [sort @run], '... but not what is needed to run, which apt is to miss';

# Which of them make asks for.
my %asks = (run => 'tools/deps run', test => 'tools/deps', lint => 'tools/deps', deps => 'tools/deps');
for my $target (sort keys %asks) {
    my $plan = (run_command('make', '--no-print-directory', '--dry-run', $target))[1];
    is_deeply [$plan =~ m{(tools/deps.*)$}mg], [$asks{$target}], "make $target";
}

done_testing;
