#!/usr/bin/perl
# Parts that are sent as they come.
use strict;
$| = 1;
print "Content-Type: text/plain\n\n";
for my $part (1 .. 3) { print "part $part\n"; select undef, undef, undef, 0.3 }
