# Quick, but for /slow, which waits 5 ms as for a database.
use strict;
use warnings;

sub {
    my $env = shift;
    select undef, undef, undef, 0.005 if $env->{PATH_INFO} eq '/slow';
    return [200, ['Content-Type' => 'text/plain', 'Content-Length' => 11], ['Hello World']];
};
