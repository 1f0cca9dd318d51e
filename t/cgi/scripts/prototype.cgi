#!/usr/bin/perl
# Prototypes hold.
use strict;
sub apply(&@) { my $code = shift; return map { $code->($_) } @_ }
sub constant() { 7 }
print "Content-Type: text/plain\n\n", join(' ', apply { $_[0] * 2 } 1, 2, constant + 1), "\n";
