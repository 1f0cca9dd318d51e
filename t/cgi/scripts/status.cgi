#!/usr/bin/perl
# A status of the script's own, and lines that end in both ways.
print "Status: 404 Not Here\r\nContent-Type: text/plain\nX-One: 1\r\n\r\nmissing\n";
