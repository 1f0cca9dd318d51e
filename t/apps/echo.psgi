# Answers with what it was asked: the strings of its env and the body, as JSON; of a long body with its length and what it
# begins with, since a megabyte takes JSON::PP seconds.
use strict;
use warnings;
use JSON::PP ();

my $json  = JSON::PP->new->latin1->canonical;
my $calls = 0;

sub {
    my $env  = shift;
    my $body = '';
    1 while read $env->{'psgi.input'}, $body, 65536, length $body;
    my %seen   = map { $_ => $env->{$_} } grep { !ref $env->{$_} } keys %$env;
    my %body   = (body => substr($body, 0, 65536), length => length $body);
    my $answer = {env => \%seen, %body, calls => ++$calls, pid => $$};
    return [200, ['Content-Type' => 'application/json'], [$json->encode($answer)]];
};
