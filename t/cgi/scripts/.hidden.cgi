#!/usr/bin/perl
# Hidden.
print "Content-Type: text/plain\n\n", __PACKAGE__, "\n";
