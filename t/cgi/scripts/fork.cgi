#!/usr/bin/perl
# A child of the script that runs to the end of it.
print "Content-Type: text/plain\n\nbefore\n";
my $child = fork;
if ($child) { waitpid $child, 0; print "after, status $?\n" }
else { print "in the child\n"; exit 0 if $ENV{QUERY_STRING} }
