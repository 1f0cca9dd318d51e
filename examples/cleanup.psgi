# Answers at once and does the slow part afterwards, in psgix.cleanup: the client does not wait for it.
use strict;
use warnings;

sub {
    my $env = shift;
    if ($env->{'psgix.cleanup'}) {
        push @{$env->{'psgix.cleanup.handlers'}}, sub {
            sleep 1;
            $env->{'psgi.errors'}->print("cleaned up after $env->{PATH_INFO}\n");
        };
    }
    return [200, ['Content-Type' => 'text/plain'], ["done, in a way\n"]];
};
