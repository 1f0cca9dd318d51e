#!/usr/bin/perl
# The body read at one go: the empty string when there is none.
my $body = do { local $/; <STDIN> };
print "Content-Type: text/plain\n\n", defined $body ? "'$body'" : 'undef', "\n";
