#!/usr/bin/perl
# What a BEGIN block has printed at once is part of every answer.
BEGIN { $| = 1; print "Content-Type: text/plain\n\n"; system 'echo from a program' }
print "and then\n";
exit 3;
