package Howdah::Perl;

# What perl Howdah is built for. Build.PL asks before anything is built; never installed.
use strict;
use warnings;

# Dies unless addresses and integers of the perl with this %Config have 64 bits. The memory that front and workers share is words of
# 64 bits, which C for 32 aligns otherwise than Rust does, and may be larger than 32 can address.
sub check {
    my $config = shift;
    return if $config->{ptrsize} >= 8 && $config->{ivsize} >= 8;
    my $bits = 8 * ($config->{ptrsize} < $config->{ivsize} ? $config->{ptrsize} : $config->{ivsize});
    die <<"END";
Howdah needs a system and a perl of 64 bits, but $config->{perlpath} ($config->{archname}) is one of $bits.
Install a system for amd64 or arm64, or run this with another perl.
END
}

1;
