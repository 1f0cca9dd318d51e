#!/usr/bin/perl
# What it prints goes through another program, for whose end perl does not wait.
use strict;
$| = 1;
print "Content-Type: text/plain\n\n";
open STDOUT, '|-', 'tr', 'a-z', 'A-Z' or die;
print "line $_\n" for 1 .. 3;
