# Eleven bytes: what is measured is the server.
use strict;
use warnings;

sub {
    return [200, ['Content-Type' => 'text/plain', 'Content-Length' => 11], ['Hello World']];
};
