#!/usr/bin/perl
# What is printed through a program that goes on when the script has ended, for which perl does not wait.
open STDOUT, '| (sleep 0.5; tr a-z A-Z)' or die;
print "content-type: text/plain\n\nthrough a program\n";
