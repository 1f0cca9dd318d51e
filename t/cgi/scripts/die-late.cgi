#!/usr/bin/perl
# What was printed before a death is the response.
print "Content-Type: text/plain\n\nup to here\n";
die 'at the fourth line';
