# Shows what the application sees of a request: curl -d a=b 'http://127.0.0.1:5000/path?query'
use strict;
use warnings;

sub {
    my $env   = shift;
    my @lines = map { sprintf "%-24s %s\n", $_, $env->{$_} // '(undef)' } sort keys %$env;
    return [200, ['Content-Type' => 'text/plain; charset=utf-8'], \@lines];
};
