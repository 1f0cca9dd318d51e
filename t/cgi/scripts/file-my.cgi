#!/usr/bin/perl
# A variable of the file that a named sub uses: compiled once, the sub keeps that of the first request.
my $count = 0;
sub bump { $count++; return }
print "Content-Type: text/plain\n\n";
bump();
print "count: $count\n";
