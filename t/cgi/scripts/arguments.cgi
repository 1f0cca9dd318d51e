#!/usr/bin/perl
# A query without "=" is words of the command line; shift takes them.
my $first = shift;
print "Content-Type: text/plain\n\n", join('|', $first // 'none', @ARGV), "\n";
push @ARGV, 'left';
