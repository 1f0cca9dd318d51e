#!/usr/bin/perl
# A program that corrects what it has written where it can go back, as zip does, and says how it was where it cannot.
use strict;
$| = 1;
print "Content-Type: text/plain\n\n";
system $^X, '-e', '$| = 1; my $from = sysseek STDOUT, 0, 1; print "?: text"; print seek(STDOUT, $from, 0) ? "4" : ", 4 letters";';
