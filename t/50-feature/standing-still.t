# A server that stands still with all of its processes, as by `docker pause`: what has so much time has as much left afterwards,
# be it a request of workers that leave, an upgrade, a script whose client has left, or a client. Each pair is something that
# has begun, and what becomes of it behind a pause that is longer than its time.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::File qw(read_if_any write_file);
use Howdah::Test::Process qw(EVERY_GENERATION descendants);
use Howdah::Test::Scripts;
use Howdah::Test::Server;
use Howdah::Test::Tls;
use IO::Socket::INET ();
use Test::More;
use Time::HiRes qw(sleep);

use constant TIME => '6s';

my $get = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";

# Waits, while it is loaded or has a request, until the test says that it may go on.
my $app = <<'PSGI';
use Time::HiRes qw(sleep);
my ($dir) = __FILE__ =~ m{(.*)/};
sub wait_for_word { until (-e "$dir/go") { sleep 0.05 } }
wait_for_word() if -e "$dir/wait";
sub {
    if ($_[0]{PATH_INFO} eq '/slow') { open my $out, '>', "$dir/begun"; wait_for_word() }
    return [200, [], ["$$"]];
}
PSGI

my (@servers, @pairs);

sub server {
    my @options = @_;
    return start(app => $app, options => ['--workers', 1, @options]);
}

sub start { my $server = Howdah::Test::Server->start(@_); push @servers, $server; return $server }

sub client {
    my ($server, $bytes) = @_;
    my $client = Howdah::Test::Client->new($server);
    $client->write($bytes // "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n");
    return $client;
}

# What begins, and what is tested after the pause.
sub pair { my ($name, $begin, $end) = @_; push @pairs, [$name, $begin, $end]; return }

sub is_served {
    my ($client, $body) = @_;
    my $response = $client->response;
    return is "$response->{status} $response->{body}", "200 $body";
}

for (['a reload', 'HUP', qr/requests go to the new generation/], ['a stop', 'TERM', qr/stopping: /]) {
    my ($name, $signal, $said) = @$_;
    my $server = server('--graceful-timeout', TIME);
    my ($worker, $client);
    pair "$name, and a request under way" => sub {
        ($worker) = $server->workers;
        $client = client($server);
        $server->wait_until(sub { -e $server->dir . '/begun' }) or die 'no worker has it';
        $server->signal($signal);
        $server->wait_for_log($said) or die $server->log;
    } => sub {
        is_served($client, $worker);
        unlike $server->log, qr/did not leave in time|cut them off/;
    };
}

my $upgraded = server('--upgrade-timeout', TIME);
pair 'an upgrade' => sub {
    write_file($upgraded->dir . '/wait', '');
    $upgraded->signal('USR2');
    $upgraded->wait_for_log(qr/app is being loaded|is being started/) or die $upgraded->log;
} => sub {
    ok $upgraded->wait_for_log(qr/serves, process \d+ finishes/), 'the new process serves';
};

my $starved = start(app => $app, options => ['--workers', 1, '--header-timeout', '2s']);

my @tls   = Howdah::Test::Tls->is_installed ? Howdah::Test::Tls->common->options : ();
my $front = start(
    app     => $app,
    options => [
        '--workers', 1, '--trusted-proxy', '127.0.0.0/8', '-l', '127.0.0.1:0,proxy-protocol',
        (@tls ? qw(-l tls:127.0.0.1:0) : ()),
        (map { ("--$_-timeout", TIME) } qw(header keepalive), @tls ? 'tls-handshake' : ()), @tls
    ]
);
my ($plain, $proxied, $secure) = map { /:(\d+)$/ } $front->urls;
for (
    ['a client whose head has begun', $plain, 'GET / HTTP/1.1', "\r\nHost: x\r\n\r\n"],
    ['a client that has connected', $plain, '', $get],
    ['a proxy that has begun its header', $proxied, 'PROXY TCP4 192.0.2.', "1 192.0.2.2 4711 443\r\n$get"],
    )
{
    my ($name, $port, $before, $behind) = @$_;
    my $client;
    pair $name => sub { $client = client($port, $before) } =>
        sub { $client->write($behind); is $client->response->{status}, 200 };
}
my $kept;
pair 'a client that is kept' => sub { $kept = client($plain, $get); $kept->response } =>
    sub { $kept->write($get); is $kept->response->{status}, 200 };
my $shakes;
pair 'a client that has not begun its handshake' =>
    sub { $shakes = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $secure) } =>
    sub { ok(IO::Socket::SSL->start_SSL($shakes, SSL_verify_mode => 0), 'has it') }
    if @tls;

my $scripts = Howdah::Test::Scripts->new('leave.cgi' => <<'SCRIPT');
trap 'echo >asked; until [ -e go ]; do sleep 0.05; done; echo >left; exit' TERM
printf 'Content-Type: text/plain\n\n'
while :; do echo more; sleep 0.05; done
SCRIPT
my $host = start(options => [$scripts->option('exec')]);
my $leaves;
pair 'a script whose client has left' => sub {
    $leaves = client($host, "GET /c/leave.cgi HTTP/1.0\r\n\r\n");
    $leaves->_more(time + 20);
    close $leaves->socket;
    $host->wait_until(sub { defined $scripts->read('asked') }) or die 'it is not asked to leave';
} => sub {
    ok $host->wait_until(sub { defined $scripts->read('left') }, 2), 'ends by itself';
};

# The last to begin, for it must not have waited for a second before.
my $crowded = server();
my @waiting;
pair 'a request that waits for a worker' => sub {
    @waiting = client($crowded);
    $crowded->wait_until(sub { -e $crowded->dir . '/begun' }) or die 'no worker has it';
    push @waiting, client($crowded, $get);
} => sub {
    is $_->response->{status}, 200 for @waiting;
    sleep 1.2;    # when the server has looked once more
    unlike $crowded->log, qr/requests wait for a worker/, 'has not waited for long';
};

$_->[1]->() for @pairs;
my @all = (successors(), map { $_->pid } grep { $_ != $starved } @servers);
push @all, descendants(EVERY_GENERATION, @all);
kill STOP => @all;
starve();
kill CONT => @all;
sleep 0.3;
write_file($_->dir . '/go', '') for $scripts, @servers;

# Those with the least time left first.
for (reverse @pairs) {
    my ($name, undef, $end) = @$_;
    subtest $name => $end;
}

done_testing;

# One that gets a processor now and then, seldom enough for each time to be taken for such a pause, goes on to end clients that are
# slow. It takes longer than TIME.
sub starve {
    my $cut = client($starved, 'GET / HTTP/1.1');
    for (1 .. 3) {
        $starved->signal('STOP');
        sleep 2.2;
        $starved->signal('CONT');
        sleep 0.3;
    }
    return is $cut->response(patience => 0.5)->{status}, 408,
        'a server that stands still again and again has deadlines';
}

# What takes the place of a server is no child of it.
sub successors {
    my $file = $upgraded->dir . '/app.psgi';
    my @all  = map { m{/(\d+)/} } grep { read_if_any($_) =~ /\Q$file\E/ } glob '/proc/[0-9]*/cmdline';
    return grep { $_ != $upgraded->pid } @all;
}

END { kill TERM => successors() if $upgraded }
