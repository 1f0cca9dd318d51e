# /100k, /1m and /10m: responses of that size from memory; anything else is hello.
use strict;
use warnings;

my %body = ('/100k' => 'x' x 102_400, '/1m' => 'x' x 1_048_576, '/10m' => 'x' x 10_485_760);

sub {
    my $body = \($body{$_[0]{PATH_INFO}} // 'Hello World');
    return [200, ['Content-Type' => 'text/plain', 'Content-Length' => length $$body], [$$body]];
};
