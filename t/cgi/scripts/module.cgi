#!/usr/bin/perl
# A module beside the script, found by FindBin.
use strict;
use FindBin;
use lib "$FindBin::Bin/lib";
use Trap::Module;
print "Content-Type: text/plain\n\n", Trap::Module::name(), ' in ', $FindBin::Bin =~ m{([^/]+)\z}, "\n";
print 'first of @INC: ', $INC[0] =~ m{([^/]+/[^/]+)\z}, ', ', scalar(grep { m{scripts/lib\z} } @INC), "\n";
unshift @INC, "$FindBin::Bin/lib";
