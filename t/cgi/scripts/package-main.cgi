#!/usr/bin/perl
# A script with a class of its own, after which it says that it is itself again.
use strict;
our $greeting = 'hello';
sub greet { return "$greeting $_[0]\n" }
{ package Trap::Counter; sub new { return bless {} } sub next { return ++$_[0]{count} } }
package Trap::Other;
sub name { return 'other' }
package main;
print "Content-Type: text/plain\n\n", greet(Trap::Other::name()), Trap::Counter->new->next, "\n";
