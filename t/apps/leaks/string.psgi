# A string that each request makes longer.
use v5.16;
my $journal = '';

sub {
    my $env = shift;
    $journal .= 'x' x 20_000;
    $journal = '' if $ENV{MENDED};
    return [200, [], [length $journal]];
};
