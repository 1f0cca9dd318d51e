# Answers with its path, and says on standard error that it has begun; /slow/SECONDS takes so long.
use strict;
use warnings;

sub {
    my $path = $_[0]{PATH_INFO};
    print STDERR "ran $path\n";
    select undef, undef, undef, $1 if $path =~ m{^/slow/([\d.]+)};
    return [200, [], [$path]];
};
