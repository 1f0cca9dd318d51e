#!/usr/bin/perl
# The body, exactly as long as it is.
use strict;
binmode STDIN;
my $got = read STDIN, my $body, 1 << 20;
print "Content-Type: text/plain\n\n$got bytes: $body\nend: ", (eof STDIN ? 'yes' : 'no'), "\n";
close STDIN;
