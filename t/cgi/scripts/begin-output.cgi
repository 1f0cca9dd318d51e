#!/usr/bin/perl
# The head by a BEGIN block, so that errors of the compiler are shown in the browser.
BEGIN { $| = 1; print "Content-Type: text/plain\n\n"; system 'echo from a program' }
print "from the script\n";
