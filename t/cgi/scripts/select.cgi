#!/usr/bin/perl
# The selected handle is standard output.
print "Content-Type: text/plain\n\nselected: ", select, "\n";
select STDERR;
$| = 1;
