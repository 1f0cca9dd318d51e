#!/usr/bin/perl
# An absolute Location.
print "Location: http://example.org/there?a=b\n\n";
