#!/usr/bin/perl
# A program that is started reads the body.
$| = 1;
print "Content-Type: text/plain\n\n";
system 'cat; echo " and its end"';
