#!/usr/bin/perl
# Standard error becomes standard output, for programs too.
$| = 1;
print "Content-Type: text/plain\n\n";
open STDERR, '>&', \*STDOUT or die;
warn "a warning\n";
system 'echo "from a program" >&2';
