#!/usr/bin/perl
# A child that stays holds no client. It does not outlive the server, with which it becomes a child of the first process.
use strict;
print "Content-Type: text/plain\n\nanswered\n";
my $child = fork;
if (!$child) {
    for (1 .. 20) { sleep 1; exit if getppid == 1 }
    print 'too late';
    exit;
}
