#!/usr/bin/perl
# DATA is there from its first line at each request, and is a file.
use strict;
print "Content-Type: text/plain\n\n";
my $first = <DATA>;
print "first: $first", "at line $.\n", 'descriptor: ', (fileno(DATA) > 2 ? 'yes' : 'no'), "\n";
print while <DATA>;
__DATA__
one
two
three
