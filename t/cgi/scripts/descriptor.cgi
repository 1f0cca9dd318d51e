#!/usr/bin/perl
# Bytes that pass by Perl's handle.
use POSIX ();
$| = 1;
print "Content-Type: text/plain\n\n";
POSIX::write(1, "by number\n", 10);
syswrite STDOUT, "by syswrite\n";
open my $copy, '>&', \*STDOUT or die;
print {$copy} "by a copy\n";
close $copy;
print "by name\n";
