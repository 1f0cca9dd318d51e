# What `ps` shows of the processes: of each worker the request that it runs, or ran last.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::File qw(read_if_any);
use Howdah::Test::Server;
use Test::More;
use Time::HiRes qw(sleep);

my $APP = <<'PSGI';
sub {
    my $env  = shift;
    my $path = $env->{PATH_INFO};
    $0 = 'my own title' if $path eq '/own';
    $0 = 'x' x 100_000 if $path eq '/endless';
    if ($path eq '/wait') { -e $env->{QUERY_STRING} or select undef, undef, undef, 0.02 for 1 .. 500 }
    return [200, [], [$$, " $0"]];
};
PSGI

sub start { return Howdah::Test::Server->start(app => $APP, options => ['--workers', 1, @_]) }

sub title {
    my $pid = shift;
    return read_if_any("/proc/$pid/cmdline") =~ s/\0\z//r;
}

# The title once it is that; else as it is after a while.
sub settled {
    my ($server, $pid, $pattern) = @_;
    $server->wait_until(sub { title($pid) =~ $pattern }, 5);
    return title($pid);
}

sub ask {
    my ($server, $target, @more) = @_;
    my $lines = join '', map { "$_\r\n" } "GET $target HTTP/1.1", @more ? @more : 'Host: shop.example:81',
        'Connection: close', '';
    return Howdah::Test::Client->ask($server, $lines)->{body} // '';
}

my $server = start('--name', 'shop');
my ($worker) = $server->workers;
like settled($server, $worker, qr/_$/), qr/^howdah: worker \[shop\] \(req=0\) _$/, 'a fresh worker is idle';
like title($server->processes('zygote')), qr{^howdah: zygote \[shop\] /\S+/app\.psgi generation 1$}, 'the zygote';

my $flag   = $server->dir . '/go-on';
my $asking = fork // die "cannot fork: $!";
if (!$asking) { ask($server, "/wait?$flag"); POSIX::_exit(0) }
like settled($server, $worker, qr/ W /),
    qr{^howdah: worker \[shop\] \(req=1\) W 127\.0\.0\.1 shop\.example:81 GET /wait\?\Q$flag\E HTTP/1\.1$},
    'a busy one names its request';
like qx(ps -o args= -p $worker), qr/^howdah: worker \[shop\] \(req=1\) W 127\.0\.0\.1 .* HTTP\/1\.1$/, '... in ps, too';
$server->write_file('go-on', '');
waitpid $asking, 0;
like settled($server, $worker, qr/ _ /), qr{\(req=1\) _ 127\.0\.0\.1 \S+ GET /wait\?\S+ HTTP/1\.1$},
    'an idle one what it did last';

ask($server, '/', 'Host: x');
like settled($server, $worker, qr/req=2\) _/), qr{\(req=2\) _ 127\.0\.0\.1 x GET / HTTP/1\.1$},
    'a short title after a long one';
ask($server, '/%1b[2J%0a%c3%a9', 'Host: x');
like settled($server, $worker, qr/req=3\) _/), qr{ GET /%1b\[2J%0a%c3%a9 HTTP/1\.1$}, 'the path is not decoded';
ask($server, '/' . 'y' x 4000, 'Host: x');
like settled($server, $worker, qr/req=4\) _/), qr{^howdah: worker \[shop\] .* GET /y+$}, 'an endless path is cut';
cmp_ok length title($worker), '<', 1024, '... to some length';

my %own = ('/own' => qr/^my own title *$/, '/endless' => qr/^x+$/);
for my $target ('/own', '/endless') {
    ask($server, $target);
    sleep 0.1;    # it becomes idle
    like title($worker), $own{$target}, "an application may set its own: $target";
    ask($server, '/', 'Host: x');
    like settled($server, $worker, qr/_ .*HTTP/), qr{_ 127\.0\.0\.1 x GET / HTTP/1\.1$}, '... until the next request';
}
is_deeply [$server->workers], [$worker], 'and lives';
is $server->stop, 0, 'the server stops';

$server = start();
($worker) = $server->workers;
like settled($server, $worker, qr/_$/), qr{^howdah: worker \[/\S+/app\.psgi\] \(req=0\) _$},
    'without a name it is the application';

$server = start('--no-proctitle', '--name', 'shop');
($worker) = $server->workers;
ask($server, '/secret');
like title($worker), qr/^howdah: worker \[shop\]$/, '--no-proctitle keeps requests out';

done_testing;
