#!/usr/bin/perl -T
# The switch -T.
print "Content-Type: text/plain\n\ntaint: ${^TAINT}\n";
