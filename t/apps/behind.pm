# A module whose handle on the data behind its code stays open.
use strict;
use warnings;

our $first = readline DATA;

1;
__DATA__
first
second
