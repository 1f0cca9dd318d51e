# Formats without a package.
sub print_page { ($~, $^) = qw(LINE HEAD); $= = 20; write }
format HEAD =
head @<
$%
.
format LINE =
line
.
1;
