package Trap::Module;
use strict;
use warnings;

sub name { return __PACKAGE__ }

1;
