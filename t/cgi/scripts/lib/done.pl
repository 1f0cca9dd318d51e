# The same, without any.
use strict;
sub done { return 'and of a file' }
1;
