#!/usr/bin/perl
# A page of about 34 KB, as CGI programs of their day wrote it: a table, row by row.
use strict;
use warnings;

use CGI ();

my $query = CGI->new;
my $name  = CGI::escapeHTML($query->param('name') // 'nobody');

print $query->header(-type => 'text/html', -charset => 'utf-8');
print "<html><head><title>Report for $name</title></head><body><table>\n";
for my $row (1 .. 523) {
  printf "<tr><td>%04d</td><td>item number %04d</td><td>%08.2f</td></tr>\n", $row, $row, $row * 1.17;
}
print "</table></body></html>\n";
