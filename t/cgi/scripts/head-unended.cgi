#!/usr/bin/perl
# A head that never ends.
print "Content-Type: text/plain\n";
