#!/usr/bin/perl
# Never ends by itself: for timeouts, and clients that leave.
use strict;
$| = 1;
sub work { select undef, undef, undef, 0.05 }
print "Content-Type: text/plain\n\n" if $ENV{QUERY_STRING};
while (1) { work(); print 'x' x 100, "\n" if $ENV{QUERY_STRING} }
