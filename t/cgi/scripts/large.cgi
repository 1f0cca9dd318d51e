#!/usr/bin/perl
# More than is held back.
print "Content-Type: text/plain\n\n";
print '0123456789abcdef' x 64, "\n" for 1 .. 2000;
