#!/usr/bin/perl
# Layers that are set while the script is compiled, and buffering that is switched off there.
use utf8;
use open qw(:std :encoding(UTF-8));
BEGIN { $| = 1; $ENV{TRAP_BEGUN} = 'set' }
print "Content-Type: text/plain; charset=utf-8\n\né $| $ENV{TRAP_BEGUN}\n";
