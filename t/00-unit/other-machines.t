# What stands here for one kind of processor compiles for others. The C of xs/ and xs-fork/ is given to a compiler for ARM, wherever
# there is one (gcc-aarch64-linux-gnu and libc6-dev-arm64-cross), with the headers of this perl. Rust for others is seldom at
# hand: of that it is looked up whether each system call has a name there.
use strict;
use warnings;
use lib 't/lib';

use Config;
use File::Basename qw(dirname);
use Howdah::Test::Command qw(run_command);
use Howdah::Test::File qw(read_file);
use JSON::PP qw(decode_json);
use Test::More;

subtest 'C' => sub {
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
};

# Where the source of the crate libc lies; nothing without cargo.
sub libc {
    my @metadata = (qw(metadata --format-version 1 --offline --locked));
    my ($status, $told) = run_command('sh', '-c', 'exec "$@"', 'sh', $ENV{CARGO} || 'cargo', @metadata);
    return if $status != 0;
    my ($manifest) = map { $_->{name} eq 'libc' ? $_->{manifest_path} : () } @{decode_json($told)->{packages}};
    return $manifest && dirname($manifest) . '/src/unix/linux_like/linux/gnu/b64';
}

subtest 'system calls' => sub {
    my $libc = libc();
    plan skip_all => 'there is no source of the crate libc' if !$libc || !-d $libc;

    my %named;
    for my $file (glob 'crates/*/src/*.rs crates/*/src/*/*.rs') {
        my $rust = read_file($file) =~ s/^#\[cfg\(target_arch = "\w+"\)\]\n.*?;\n//gmsr;
        $named{$_} //= $file for $rust =~ /\blibc::(SYS_\w+)/g;
    }
    for my $machine (qw(aarch64 riscv64)) {
        my %known = map { $_ => 1 }
            join("\n", map { read_file($_) } grep { !/ilp32/ } glob "$libc/$machine/*.rs") =~ /pub const (SYS_\w+):/g;
        is_deeply [map { "$named{$_}: $_" } grep { !$known{$_} } sort keys %named], [],
            "$machine has those that are named";
    }
};

done_testing;
