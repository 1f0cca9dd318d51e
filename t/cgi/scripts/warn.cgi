#!/usr/bin/perl
# Warnings name the script's own lines.
use strict;
use warnings;
print "Content-Type: text/plain\n\nwarned\n";
warn 'look here';
my $sum = 1 + undef;
