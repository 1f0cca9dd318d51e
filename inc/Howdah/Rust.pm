package Howdah::Rust;

# The Rust side of the build: which cargo there is, whether it is new enough, and where its products are. Build.PL asks
# before anything is built, Howdah::Builder when it builds; never installed.
use strict;
use warnings;

use File::Spec::Functions qw(catfile);

# Where cargo put its products when Build.PL ran: `sudo ./Build install` may not have the user's CARGO_TARGET_DIR.
my $target;

sub target { return $ENV{CARGO_TARGET_DIR} || $target || 'target' }
sub remember_target { $target = shift; return }
sub product { return catfile(target(), 'release', shift) }
sub is_built { return -e product('howdah') && -e product('libhowdah_wire.a') }

# Dies unless there is a cargo that can build Howdah; without any, what was built before is good, too. An old one fails
# in the middle of the build, by an edition or a lock file that it does not know.
sub check {
    my $trouble = trouble() or return;
    die $trouble if !is_built() || defined version();
    return;
}

# Builds, or leaves it at what is built, as `sudo make install` must where root has no cargo or an old one.
sub build {
    if (my $trouble = trouble()) {
        die $trouble if !is_built();
        print {*STDERR} "What was built before is used as it is. $trouble" if defined version();
        return;
    }
    return if system(cargo(), qw(build --release --locked --package howdah --package howdah-wire)) == 0;
    die "cargo could not build the Rust side of Howdah: see its messages above\n";
}

# Why Howdah cannot be built, and the way out; nothing when it can.
sub trouble {
    my ($cargo, $needed) = (cargo(), needed());
    my $version = version();
    return if defined $version && !_is_older($version, $needed);
    my $fault =
          !$cargo ? 'there is no cargo in PATH'
        : !defined $version ? "$cargo does not tell its version, so that it most likely cannot be run"
        : "$cargo is that of Rust $version";
    return <<"END";
Howdah's front is written in Rust and needs Rust $needed or later to be built, but $fault.
Install it (https://rustup.rs, or your system's packages), with ~/.cargo/bin before other places in PATH, and run this again.
END
}

# The oldest that can build it, as Cargo.toml says.
sub needed {
    open my $in, '<', 'Cargo.toml' or die "cannot read Cargo.toml: $!\n";
    my ($needed) = map { /^rust-version\s*=\s*"([\d.]+)"/ ? $1 : () } <$in>;
    return $needed // die "Cargo.toml names no rust-version\n";
}

# The cargo that CARGO names, or the first in PATH.
sub cargo {
    my $name = $ENV{CARGO} || 'cargo';
    my ($found) = grep { -x && !-d } $name =~ m{/} ? $name : map { catfile($_, $name) } split /:/, $ENV{PATH} // '';
    return $found;
}

# Its version; nothing when it does not run, as rustup's does without a toolchain.
sub version {
    my $cargo = cargo() or return;
    open my $out, '-|', qq{"$cargo" --version 2>/dev/null} or return;
    my ($version) = (<$out> // '') =~ /^cargo (\d+\.\d+(?:\.\d+)?)/;
    return close $out ? $version : undef;
}

sub _is_older {
    my ($have, $want) = map { [split /\./] } @_;
    for my $part (0 .. 2) {
        my $difference = ($have->[$part] // 0) <=> ($want->[$part] // 0);
        return $difference < 0 if $difference;
    }
    return 0;
}

1;
