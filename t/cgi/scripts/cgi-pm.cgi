#!/usr/bin/perl
# CGI.pm and what it remembers.
use strict;
use CGI qw(:standard -utf8 -nosticky);
print header(-type => 'text/plain', -charset => 'utf-8');
print 'names: ', join(' ', param()), "\n";
print 'length: ', length(param('a') // ''), "\n";
print 'sticky: ', (CGI::textfield('a', 'first') =~ /value="(.*?)"/)[0], "\n";
$CGI::POST_MAX = 1;
