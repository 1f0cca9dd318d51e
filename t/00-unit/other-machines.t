# What stands in the C of xs/ and xs-fork/ for one kind of processor compiles for that, wherever there is a compiler for it
# (gcc-aarch64-linux-gnu and libc6-dev-arm64-cross). Perl's headers are those of this perl.
use strict;
use warnings;
use lib 't/lib';

use Config;
use Howdah::Test::Command qw(run_command);
use Howdah::Test::File qw(read_file);
use Test::More;

my ($compiler) = grep { -x } map { "$_/aarch64-linux-gnu-gcc" } split /:/, $ENV{PATH};
plan skip_all => 'there is no compiler for another machine' if !$compiler;
plan skip_all => 'the headers of this perl are not for 64 bits' if $Config{ptrsize} != 8;

my @flags =
    (qw(-fsyntax-only -std=gnu11 -Wall -Werror -Ixs), split(' ', $Config{ccflags}), "-I$Config{archlibexp}/CORE");
for my $file (grep { read_file($_) =~ /__(?:x86_64|aarch64)__/ } glob 'xs/*.c xs-fork/*.c') {
    my ($status, undef, $said) = run_command($compiler, @flags, $file);
    is $said, '', "$file compiles by $compiler";
    is $status, 0, '... and that says so';
}

done_testing;
