#!/usr/bin/perl
# A child that stays holds no client.
use strict;
print "Content-Type: text/plain\n\nanswered\n";
my $child = fork;
if (!$child) { sleep 20; print 'too late'; exit }
