#!/usr/bin/perl
# Package variables: a process of one's own begins with none.
use strict;
our $count;
$count++;
print "Content-Type: text/plain\n\ncount: $count\n";
