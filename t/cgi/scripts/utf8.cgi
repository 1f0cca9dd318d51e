#!/usr/bin/perl
# A source in UTF-8, whose DATA is too.
use strict;
use utf8;
binmode STDOUT, ':encoding(UTF-8)';
my $word = 'Zürich';
print "Content-Type: text/plain; charset=utf-8\n\n$word ", length $word, "\n";
chomp(my $data = <DATA>);
print "$data ", length $data, "\n";
__DATA__
Köln
