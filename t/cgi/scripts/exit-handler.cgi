#!/usr/bin/perl
# exit in a signal's handler, inside eval, as old scripts bound their time.
use strict;
print "Content-Type: text/plain\n\n";
local $SIG{ALRM} = sub { print "time is up\n"; exit };
eval { alarm 1; select undef, undef, undef, 0.05 for 1 .. 200; print "not interrupted\n" };
print "still here\n";
