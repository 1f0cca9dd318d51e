#!/usr/bin/perl
# A script that closes its output has answered; the next one has its own.
use strict;
print "Content-Type: text/plain\n\nanswered\n";
close STDOUT;
print 'to nobody';
