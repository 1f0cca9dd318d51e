# The scripts of bench/cgi, each compiled into a sub once.
use strict;
use warnings;

use Plack::App::URLMap;
use Plack::App::WrapCGI;

my ($dir) = __FILE__ =~ m{^(.*)/apps/};
my $map = Plack::App::URLMap->new;
for my $script (glob "$dir/cgi/*.cgi") {
    my ($name) = $script =~ m{([^/]+)\z};
    $map->map("/$name" => Plack::App::WrapCGI->new(script => $script)->to_app);
}
$map->to_app;
