# Answers with its path, and says on standard error that it has begun; /slow/SECONDS takes so long, /until/FILE until there is
# that file, or a minute.
use strict;
use warnings;

sub {
    my $path = $_[0]{PATH_INFO};
    print STDERR "ran $path\n";
    select undef, undef, undef, $1 if $path =~ m{^/slow/([\d.]+)};
    my ($file) = $path =~ m{^/until(/.+)};
    for (1 .. 6000) { last if !$file || -e $file; select undef, undef, undef, 0.01 }
    return [200, [], [$path]];
};
