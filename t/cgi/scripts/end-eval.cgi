#!/usr/bin/perl
# END blocks of texts that are evaluated, and of a library, run at the end of the request that has evaluated them.
print "Content-Type: text/plain\n\nbody\n";
END { print "of the file\n" }
eval q{END { print "evaluated\n" }};
require './lib/end.pl';
