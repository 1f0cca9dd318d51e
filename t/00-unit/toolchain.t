# A cargo that is missing, does not run or is too old is told before anything is built: by Build.PL and by tools/deps, with
# the version that is needed and the one that was found. What is built already can be installed without one.
use strict;
use warnings;
use lib 't/lib';

use Cwd qw(getcwd);
use File::Temp qw(tempdir);
use Howdah::Test::Command qw(run_command);
use Howdah::Test::File qw(read_file);
use Test::More;

my $checkout = getcwd;
my $top      = tempdir(CLEANUP => 1);
my ($needed) = read_file("$checkout/Cargo.toml") =~ /^rust-version = "(.*)"/m;

sub file {
    my ($name, $content) = @_;
    open my $out, '>', $name or die "cannot write $name: $!";
    print {$out} $content;
    close $out or die $!;
    return;
}

# A checkout of which only the build's own files are there.
sub fresh {
    my $dir = tempdir(DIR => $top);
    symlink "$checkout/$_", "$dir/$_" or die $! for qw(Build.PL Cargo.toml inc lib xs tools);
    return $dir;
}

# A PATH with a cargo that only tells its version; without one when that is undef.
sub path {
    my $says = shift;
    my $dir  = tempdir(DIR => $top);
    for my $tool (qw(sed sort head dirname bash env printf make sh)) {
        my ($found) = grep { -x } map { "$_/$tool" } split /:/, $ENV{PATH};
        symlink $found, "$dir/$tool" if $found;
    }
    return $dir if !defined $says;
    file("$dir/cargo", "#!/bin/sh\n$says\n");
    chmod 0755, "$dir/cargo" or die $!;
    return $dir;
}

sub run_in {
    my ($dir, $path, @command) = @_;
    local $ENV{PATH} = $path;
    delete local @ENV{qw(CARGO CARGO_TARGET_DIR)};
    chdir $dir or die $!;
    my @outcome = run_command(@command);
    chdir $checkout or die $!;
    return @outcome;
}

my @unfit = (
    [undef, qr/there is no cargo in PATH/i],
    ['echo "error: no toolchain" >&2; exit 1', qr/does not tell its version/],
    ['echo cargo 1.63.0 "(fd9c4297c 2022-07-01)"', qr/cargo is that of Rust 1\.63\.0/],
    ['echo cargo 0.66.0', qr/cargo is that of Rust 0\.66\.0/],
);
for my $case (@unfit) {
    my ($says, $fault) = @$case;
    my $name = $says // 'no cargo';
    my ($dir, $path) = (fresh(), path($says));
    my ($status, $out, $err) = run_in($dir, $path, $^X, 'Build.PL');
    isnt $status, 0, "Build.PL fails: $name";
    like $err, $fault;
    like $err, qr/needs Rust \Q$needed\E or later/;
    ok !-e "$dir/Build", '... and makes no Build';
    ($status, $out, $err) = run_in($dir, $path, "$path/bash", 'tools/deps', 'run');
    is $status, 1, 'tools/deps fails';
    like $err, $fault;
    like $err, qr/needs Rust \Q$needed\E or later/;
}

subtest 'a perl of 32 bits is refused' => sub {
    for my $case ([4, 4, 32], [4, 8, 32], [8, 4, 32], [8, 8, undef]) {
        my ($pointer, $integer, $bits) = @$case;
        my $check = 'use Howdah::Perl; Howdah::Perl::check({perlpath => "/bin/perl", archname => "some-linux", @ARGV})';
        my ($status, undef, $err) = run_command($^X, '-Iinc', '-e', $check, ptrsize => $pointer, ivsize => $integer);
        is $status != 0, defined $bits, "addresses of $pointer bytes, integers of $integer";
        like $err, $bits ? qr{perl of 64 bits, but /bin/perl \(some-linux\) is one of $bits\.\n} : qr/\A\z/;
    }
};

subtest 'one that is new enough' => sub {
    for my $version ($needed, "$needed.0", '1.100.0', '2.0.0') {
        my ($status, undef, $err) = run_in(my $dir = fresh(), path("echo cargo $version"), $^X, 'Build.PL', '--quiet');
        is $status, 0, $version or diag $err;
        ok -e "$dir/Build";
    }
};

subtest 'what is built can do without' => sub {
    my @build = ($^X, '-Iinc', '-MHowdah::Rust', '-e', 'Howdah::Rust::build()');
    my $dir   = fresh();
    isnt + (run_in($dir, path(undef), @build))[0], 0, 'nothing is built';
    mkdir "$dir/$_" or die $! for 'target', 'target/release';
    file("$dir/target/release/$_", '') for 'howdah', 'libhowdah_wire.a';
    is + (run_in($dir, path(undef), $^X, 'Build.PL', '--quiet'))[0], 0, 'Build.PL';
    is_deeply [run_in($dir, path(undef), @build)], [0, '', ''], 'no cargo is no trouble';
    is_deeply [run_in($dir, path('exit 1'), @build)], [0, '', ''], 'nor one that does not run';
    my ($status, undef, $err) = run_in($dir, path('echo cargo 1.63.0'), @build);
    is $status, 0;
    like $err, qr/^What was built before is used as it is\. .*1\.63\.0/, 'an old one is told';
};

# `make run` needs no header for static probes, and `make test` installs it.
subtest 'what was compiled before the header for static probes came is compiled again' => sub {
    my ($header) = grep { -e } '/usr/include/sys/sdt.h', glob '/usr/include/*/sys/sdt.h';
    plan skip_all => 'needs systemtap-sdt-dev' if !$header;
    my $came = (stat $header)[10];
    for my $case ([$came - 1, 1, 'compiled before'], [$came + 1, 0, 'compiled since']) {
        my ($compiled, $again, $name) = @$case;
        file("$top/some.o", '');
        utime $compiled, $compiled, "$top/some.o" or die $!;
        my ($status, $out) = run_command(
            $^X, "-I$checkout/inc", '-MHowdah::Builder',
            '-e', 'print Howdah::Builder::_has_come_since(shift) ? 1 : 0', "$top/some.o"
        );
        is "$status $out", "0 $again", $name;
    }
};

# A checkout may be built with the system's perl first, and then with the one that the application has.
subtest 'what was compiled for another perl is compiled again' => sub {
    my $dir = tempdir(DIR => $top);
    mkdir "$dir/$_" or die $! for 'xs', '_build';
    file("$dir/xs/some.c", "int some;\n");
    my $compile = sub {
        my $version = shift;
        my ($status, undef, $err) =
            run_in($dir, $ENV{PATH}, $^X, "-I$checkout/inc", '-MHowdah::Builder', '-e', <<'END', $version);
my $build = Howdah::Builder->new(module_name => 'Some', dist_version => 1, dist_abstract => 'some', dist_author => 'some', quiet => 1);
$build->config(version => shift);
$build->compile_c('xs/some.c');
END
        is $status, 0, "compiled for $version" or diag $err;
    };
    $compile->('5.36.0');
    utime 1, 1, "$dir/xs/some.c" or die $!;
    for my $case (['5.36.0', 0], ['5.40.1', 1], ['5.40.1', 0], ['5.36.0', 1]) {
        my ($version, $again) = @$case;
        my $ago = time - 60;
        utime $ago, $ago, grep { -e } "$dir/xs/some.o", "$dir/_build/perl" or die $!;
        $compile->($version);
        is + (stat "$dir/xs/some.o")[9] != $ago, $again != 0, $again ? 'anew' : 'as it is';
    }
};

done_testing;
