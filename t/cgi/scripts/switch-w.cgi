#!/usr/bin/perl -w
# The switch -w, and a warning that comes of it.
my $none;
my $text = "none: $none";
print "Content-Type: text/plain\n\nswitch: $^W\n";
$^W = 0;
