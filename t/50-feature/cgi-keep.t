# CGI scripts with --cgi ...,mode=keep, here as an application: each of the scripts that have what CGI scripts trip over, with
# one worker, so that what one leaves behind is before the next.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Server;
use Howdah::Test::Traps;
use Test::More;

my $app = <<'PSGI';
use Howdah::CGI::Keep;
Howdah::CGI::Keep->new(root => 't/cgi/scripts', mount => '/cgi')->to_app;
PSGI

my $server = Howdah::Test::Server->start(app => $app, options => ['--workers', 1]);
my ($worker) = $server->workers;
ok $server->wait_for_log(qr{howdah: compiled \d+ CGI scripts of \S+/t/cgi/scripts$}m),
    'they are compiled before the fork'
    or diag $server->log;
Howdah::Test::Traps->new(mode => 'keep')->check($server->port, sub { $server->log });
is_deeply [$server->workers], [$worker], 'and no worker has left';
is $server->stop, 0;

done_testing;
