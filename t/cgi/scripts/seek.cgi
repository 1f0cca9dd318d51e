#!/usr/bin/perl
# Standard output has no position to go back to, though it tells how much was printed.
use strict;
print "Content-Type: text/plain\n\n";
my $went = seek STDOUT, 0, 0;
print 'went back: ', ($went ? 'yes' : 'no'), ', told: ', tell STDOUT, "\n";
