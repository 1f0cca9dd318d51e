#!/usr/bin/perl
# Warnings of Carp name the line of the file that called, and no caller above it.
use strict;
use Carp;
print "Content-Type: text/plain\n\ncallers: ", scalar(() = caller), "\n";
carp 'directly';
sub below { carp 'below' }
below();
