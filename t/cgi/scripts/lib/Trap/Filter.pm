package Trap::Filter;
use strict;
use warnings;

use Filter::Util::Call;

# Words in capitals become small.
sub import {
    filter_add(sub { my $status = filter_read(); s/HELLO/hello/ if $status > 0; return $status });
    return;
}

1;
