#!/usr/bin/perl
# Perl has no return at file level; compiled into a sub there is one.
print "Content-Type: text/plain\n\nbefore\n";
return;
print "after\n";
