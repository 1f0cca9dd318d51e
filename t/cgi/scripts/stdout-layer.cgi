#!/usr/bin/perl
# Layers of standard output do not outlive the request. The byte is 0xE9, twice.
print "Content-Type: text/plain\n\n\xe9";
binmode STDOUT, ':encoding(UTF-8)';
print "\xe9\n";
