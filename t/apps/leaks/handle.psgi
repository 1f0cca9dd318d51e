# File handles that are never closed.
use v5.16;
my @open;

sub {
    open my $in, '<', '/dev/null' or die "cannot open: $!";
    push @open, $in if !$ENV{MENDED};
    return [200, [], ['ok']];
};
