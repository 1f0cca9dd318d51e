#!/usr/bin/perl
# A module that is loaded while the script runs adds a directory to @INC.
use strict;
use File::Basename qw(dirname);
require(dirname(__FILE__) . '/lib/Trap/Place.pm');
print "Content-Type: text/plain\n\nits directory: ", (grep { m{/late\z} } @INC) ? 'there' : 'gone', "\n";
