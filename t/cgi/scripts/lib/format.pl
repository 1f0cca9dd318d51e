# Formats without a package.
use strict;
sub print_page { ($~, $^) = qw(LINE HEAD); $= = 20; write }
format HEAD =
head @<
$%
.
format LINE =
line
.
1;
