#!/usr/bin/perl
# A body of any length, and what it took to read it.
use strict;
use Digest::MD5;
my $sum = Digest::MD5->new->addfile(*STDIN)->hexdigest;
print "Content-Type: text/plain\n\n$ENV{CONTENT_LENGTH} $sum\n";
