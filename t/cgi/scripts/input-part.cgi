#!/usr/bin/perl
# A body that is not read to its end is nobody else's.
use strict;
my $line = <STDIN>;
print "Content-Type: text/plain\n\n", $line // "no body\n";
