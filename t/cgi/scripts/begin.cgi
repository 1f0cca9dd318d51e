#!/usr/bin/perl
# BEGIN blocks see the process that compiles.
my $compiled;
BEGIN { $compiled = $$ }
print "Content-Type: text/plain\n\ncompiled by the process that runs: ", ($compiled == $$ ? 'yes' : 'no'), "\n";
