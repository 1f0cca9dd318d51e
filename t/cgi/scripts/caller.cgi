#!/usr/bin/perl
# A script that is also a module: it runs only where nobody has called it.
main() unless caller;
sub main { print "Content-Type: text/plain\n\nrun, called by ", scalar caller, "\n"; return }
