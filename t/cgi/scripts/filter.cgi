#!/usr/bin/perl
# A source filter.
use FindBin;
use lib "$FindBin::Bin/lib";
use Trap::Filter;
print "Content-Type: text/plain\n\nHELLO\n";
