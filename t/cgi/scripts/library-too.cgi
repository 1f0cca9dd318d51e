#!/usr/bin/perl
# The same library in another script.
use strict;
require './library.pl';
print "Content-Type: text/plain\n\ntoo: ", greeting(), "\n";
