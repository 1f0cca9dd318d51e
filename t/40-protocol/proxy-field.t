# The field Proxy never reaches the application: its CGI name would be HTTP_PROXY, a variable of the environment by which
# libraries choose a proxy for requests of their own (RFC 3875 4.1.18).
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Server;
use Test::More;

my $server = Howdah::Test::Server->start(
    options => ['--workers', 1],
    app     => 'sub { [200, [], [join " ", grep { /PROXY/ } sort keys %{$_[0]}]] }'
);
for my $name ('Proxy', 'PROXY', 'proxy') {
    my $bytes = "GET / HTTP/1.1\r\nHost: x\r\n$name: http://evil/\r\nProxy-Authorization: x\r\n\r\n";
    is(
        Howdah::Test::Client->ask($server, $bytes)->{body}, 'HTTP_PROXY_AUTHORIZATION',
        "$name never becomes HTTP_PROXY"
    );
}

done_testing;
