#!/usr/bin/perl
# A library without a package of its own.
require './library.pl';
print "Content-Type: text/plain\n\n", greeting(), "\n";
