#!/usr/bin/perl
# Standard output caught in a string, and in a file, and restored.
use strict;
print "Content-Type: text/plain\n\nbefore\n";
open my $saved, '>&', \*STDOUT or die;
close STDOUT;
open STDOUT, '>', \my $caught or die;
print "caught\n";
close STDOUT;
open STDOUT, '>&', $saved or die;
print "between, $caught";
open STDOUT, '>', '/dev/null' or die;
system 'echo nowhere';
print "nowhere\n";
open STDOUT, '>&', $saved or die;
print "after\n";
