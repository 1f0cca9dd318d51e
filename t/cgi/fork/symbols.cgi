#!/usr/bin/perl
# All names that perl knows.
print "Content-Type: text/plain\n\n";
sub walk {
    my ($stash, $prefix) = @_;
    for my $name (sort keys %$stash) {
        next if $name eq 'main::' || $seen{$prefix . $name}++;
        print "$prefix$name", (defined &{"$prefix$name"} ? ' sub' : ''), "\n" if $prefix . $name !~ /^\d/;
        walk(\%{"$prefix$name"}, "$prefix$name") if $name =~ /::\z/;
    }
}
walk(\%main::, '');
