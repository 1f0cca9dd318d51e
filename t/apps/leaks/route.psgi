# Five routes, of which one leaks.
use v5.16;
my @kept;

sub {
    my $env = shift;
    push @kept, {path => $env->{PATH_INFO}} if $env->{PATH_INFO} =~ m{^/orders/} && !$ENV{MENDED};
    return [200, [], ['ok']];
};
