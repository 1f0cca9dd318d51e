#!/usr/bin/perl
# Standard output is put elsewhere at the end, and stays there.
print "Content-Type: text/plain\n\nhere\n";
open STDOUT, '>', '/dev/null';
print 'elsewhere';
