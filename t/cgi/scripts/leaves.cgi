#!/usr/bin/perl
# Leaves behind what nobody can clean up: a descriptor that a package variable has.
pipe $Trap::Left::in, $Trap::Left::out;
print "Content-Type: text/plain\n\nleft\n";
