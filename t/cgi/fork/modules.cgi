#!/usr/bin/perl -w
# The same with modules, compiled ones among them, some of them loaded when it runs.
use strict;
use POSIX ();
use List::Util qw(sum);
use Data::Dumper;
print "Content-Type: text/plain\n\n", sum(1 .. 4), "\n";
require Socket;
require Time::HiRes;
print map "$_ $INC{$_}\n", sort keys %INC;
print join(' ', sort keys %DynaLoader::), "\n";
print Data::Dumper->new([\@INC, $^W])->Indent(1)->Dump, POSIX::floor(2.5), "\n";
