#!/usr/bin/perl
# Begins with a byte order mark.
print "Content-Type: text/plain\n\nmarked\n";
