#!/usr/bin/perl
# Standard output becomes a file, and then a program, without being closed before.
use strict;
print "Content-Type: text/plain\n\nbefore\n";
my $file = "/tmp/howdah-trap-$$";
open my $saved, '>&', \*STDOUT or die;
open STDOUT, '>', $file or die;
print "in the file\n";
system 'echo by a program';
open STDOUT, '>&', $saved or die;
open my $in, '<', $file or die;
unlink $file;
print "back, there is: ", <$in>;
open STDOUT, '|-', 'tr a-z A-Z' or die;
print "through a program\n";
close STDOUT;
