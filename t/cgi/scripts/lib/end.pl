# END block of a library without a package.
use strict;
END { print "of a library\n" }
1;
