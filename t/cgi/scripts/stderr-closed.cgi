#!/usr/bin/perl
# What goes to standard error after that is lost; the next request has it again.
warn "this is said each time\n";
print "Content-Type: text/plain\n\nclosed\n";
close STDERR;
warn "this is never said\n";
