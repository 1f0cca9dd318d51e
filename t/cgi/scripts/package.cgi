#!/usr/bin/perl
# The package that the script is in.
print "Content-Type: text/plain\n\n", __PACKAGE__, "\n";
