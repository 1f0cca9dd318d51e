#!/usr/bin/perl
# Formats of a library, which chooses them; what STDOUT has of a page begins anew.
print "Content-Type: text/plain\n\n";
print "$~ $= $- $%\n";
require './lib/format.pl';
print_page();
