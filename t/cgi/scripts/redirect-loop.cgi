#!/usr/bin/perl
# A local redirect to itself.
print "Location: $ENV{SCRIPT_NAME}\n\n";
