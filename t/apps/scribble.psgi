# t/apps/load.psgi, and what no application should be: a POST to /do runs its body as Perl, with the memory that workers
# share with the front in $segment, and answers with the result; one to /app has the result for its response.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Segment ();
use Time::HiRes qw(sleep);

my $load = do './t/apps/load.psgi' or die $@ || $!;
eval { Howdah::Test::Segment->new };    # as it is before anybody misuses it; plackup loads us before there is one

sub run {
    my ($code, $segment) = @_;
    my $result = eval "use strict; use warnings; $code";    ## no critic (ProhibitStringyEval)
    return $@ || $result;
}

sub {
    my $env = shift;
    return $load->($env) if $env->{PATH_INFO} !~ m{^/(?:do|app)$};
    my $code = '';
    1 while $env->{'psgi.input'}->read($code, 65536, length $code);
    return run($code) if $env->{PATH_INFO} eq '/app';
    return [200, ['Content-Type' => 'text/plain'], [run($code, Howdah::Test::Segment->new) // 'nothing']];
};
