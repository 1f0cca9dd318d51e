#!/usr/bin/perl -w
# What is compiled at each request defines nothing anew, be it a library, a file that is done, or a text.
use strict;
print "Content-Type: text/plain\n\n";
$SIG{__WARN__} = sub { print "warning: $_[0]" };
require './lib/warnings.pl';
do './lib/done.pl';
eval 'sub evaluated { return 1 }';
print said(), ' ', done(), "\n";
warn "its own\n";
