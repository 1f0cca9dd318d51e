#!/usr/bin/perl
# What programs print comes in its place.
print "Content-Type: text/plain\n\n";
print "one\n";
system 'echo two';
print "three\n";
system '/bin/echo', 'four';
print 'caught: ', `echo five`;
open my $pipe, '|-', 'cat' or die;
print {$pipe} "six\n";
close $pipe;
print "status: $?\n";
