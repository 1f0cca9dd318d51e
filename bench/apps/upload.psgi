# Reads the whole request body and answers its length.
use strict;
use warnings;

sub {
    my $input = $_[0]{'psgi.input'};
    my $size  = 0;
    while (my $read = $input->read(my $buffer, 65_536)) { $size += $read }
    return [200, ['Content-Type' => 'text/plain', 'Content-Length' => length $size], [$size]];
};
