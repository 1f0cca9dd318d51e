#!/usr/bin/perl
# Does not compile: the variable is nowhere declared.
use strict;
print "Content-Type: text/plain\n\n";
print $nowhere;
