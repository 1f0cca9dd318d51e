#!/usr/bin/perl
# A script that seeds makes no other's numbers known.
print "Content-Type: text/plain\n\n";
print $ENV{QUERY_STRING} ? int rand 1e9 : do { srand 42; int rand 1e9 }, "\n";
