# A library without a package, with warnings of its own.
use strict;
use warnings;
use constant SAID => 'of a library';
sub said { return SAID }
1;
