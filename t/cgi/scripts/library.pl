# No package: the subs are those of whoever requires it.
use strict;
use warnings;
our $asked = $ENV{QUERY_STRING};
sub greeting { return "hello $asked" }
1;
