#!/usr/bin/perl
# Formats with variables of the file.
use strict;
my ($name, $price);
format STDOUT_TOP =
Name      Price
---------------
.
format STDOUT =
@<<<<<< @>>>>>>
$name,  $price
.
print "Content-Type: text/plain\n\n";
for (['apple', 3], ['pear', 14]) { ($name, $price) = @$_; write }
