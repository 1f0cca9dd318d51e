# Answers with what it was asked: the strings of its env and the body, as JSON.
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
    my $answer = {env => \%seen, body => $body, calls => ++$calls, pid => $$};
    return [200, ['Content-Type' => 'application/json'], [$json->encode($answer)]];
};
