#!/usr/bin/perl -wT
# What is tainted.
use strict;
use Scalar::Util qw(tainted);
print "Content-Type: text/plain\n\n${^TAINT} $^W\n";
print map { "$_ " . (tainted($ENV{$_}) ? 'tainted' : 'clean') . "\n" } qw(QUERY_STRING PATH SCRIPT_NAME);
print map { "$_ " . (tainted($_) ? 'tainted' : 'clean') . "\n" } @ARGV, $0;
print 'input ', (tainted(my $line = <STDIN>) ? 'tainted' : 'clean'), "\n";
print eval { `echo $ENV{QUERY_STRING}`; 1 } ? "ran\n" : $@;
my $none;
print "$none\n";
