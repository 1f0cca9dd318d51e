#!/usr/bin/perl
# The script becomes another program.
$| = 1;
print "Content-Type: text/plain\n\nperl\n";
exec '/bin/sh', '-c', 'echo "the other program, $QUERY_STRING"';
