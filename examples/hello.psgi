# The shortest application: 11 bytes, the same for every request. `make run` serves it.
use strict;
use warnings;

my $response = [200, ['Content-Type' => 'text/plain', 'Content-Length' => 11], ['Hello World']];

sub { $response };
