#!/usr/bin/perl
# A head without Content-Type, Location or Status.
print "X-Only: this\n\nbody\n";
