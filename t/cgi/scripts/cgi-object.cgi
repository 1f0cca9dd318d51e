#!/usr/bin/perl
# CGI.pm by object, without the switches of the other script.
use strict;
use CGI;
my $q = CGI->new;
print $q->header('text/plain');
print 'names: ', join(' ', sort $q->param), "\n", 'length: ', length($q->param('a') // ''), "\n";
