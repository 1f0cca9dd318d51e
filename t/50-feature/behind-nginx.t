# Behind nginx: the example of deploy/ shows nobody the server's own pages and carries WebSockets and long heads; what a bare
# proxy_pass leaves open is what the documentation says.
use strict;
use warnings;
use lib 't/lib';

use File::Temp ();
use Howdah::Test::Client;
use Howdah::Test::File qw(read_file);
use Howdah::Test::Ports qw(free_port);
use Howdah::Test::Server;
use IO::Socket::INET ();
use Test::More;

my ($nginx) = grep { -x } map { "$_/nginx" } split(/:/, $ENV{PATH}), '/usr/sbin';
plan skip_all => 'there is no nginx' if !$nginx;

my $dir    = File::Temp->newdir;
my $server = Howdah::Test::Server->start(
    app => <<'APP',
sub {
    my $env = shift;
    return [200, ['X-Long' => 'x' x 12_000], [$env->{HTTP_UPGRADE} // 'no upgrade']] if $env->{PATH_INFO} eq '/long';
    return sub {
        $_[0]->([101, [Upgrade => 'websocket']]);
        my $io = $env->{'psgix.io'};
        print {$io} scalar(readline $io), $env->{HTTP_CONNECTION};
    } if $env->{PATH_INFO} eq '/socket';
    my @made = grep { defined } @$env{qw(HTTP_X_FORWARDED_HOST HTTP_X_FORWARDED_PORT)};
    return [200, [], [join ' ', "app $env->{PATH_INFO} for", $env->{HTTP_X_FORWARDED_FOR} // 'nobody', @made]];
}
APP
    options => ['-S', "$dir/app.sock", qw(--workers 2 --status-path /server-status --metrics-path /metrics)]
);
my %proxy;

# An nginx with this inside http {}, on a port of its own.
sub nginx {
    my ($inside, $port) = @_;
    my $file = "$dir/$port.conf";
    open my $out, '>', $file or die $!;
    print {$out} <<"CONF";
daemon off; master_process off; pid $dir/$port.pid; error_log $dir/$port.log;
events {}
http { access_log off; client_body_temp_path $dir/c; proxy_temp_path $dir/p; fastcgi_temp_path $dir/f;
    uwsgi_temp_path $dir/u; scgi_temp_path $dir/s;
$inside }
CONF
    close $out or die $!;
    defined($proxy{$port} = fork) or die $!;
    if (!$proxy{$port}) { exec $nginx, '-p', "$dir", '-e', "$dir/$port.log", '-c', $file or POSIX::_exit(127) }
    $server->wait_until(sub { IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port) }, 10)
        or die "nginx does not start";
    return $port;
}

END { local $?; kill TERM => values %proxy; waitpid $_, 0 for values %proxy }

sub get {
    my ($port, $path, @fields) = @_;
    my $bytes = join "\r\n", "GET $path HTTP/1.1", 'Host: shop.example.org', 'Connection: close', @fields, '', '';
    return Howdah::Test::Client->ask($port, $bytes);
}

# What comes of a WebSocket on which a line is said.
sub socket_of {
    my $port   = shift;
    my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port) or die $!;
    print {$socket} join "\r\n", 'GET /socket HTTP/1.1', 'Host: shop.example.org', 'Connection: Upgrade',
        'Upgrade: WebSocket', '', "hello\n";
    return join '', <$socket>;
}

subtest 'the example of deploy/' => sub {
    my $example = read_file('deploy/nginx.conf');
    my $port    = free_port();
    $example =~ s{unix:\S+\.sock}{unix:$dir/app.sock} or die 'no socket';
    $example =~ s{listen 80;}{listen 127.0.0.1:$port;} or die 'no port';
    nginx($example, $port);
    is get($port, '/a')->{body}, 'app /a for 127.0.0.1', 'leads to the application';
    my @made = ('X-Forwarded-For: 192.0.2.1', 'X-Forwarded-Host: made.up', 'X-Forwarded-Port: 8443');
    is get($port, '/a', @made)->{body}, 'app /a for 127.0.0.1', 'without what its client has made up';
    is get($port, $_)->{status}, 404, "not to $_" for qw(/server-status /server-status?auto /metrics);
    is get($port, '/long', 'Upgrade: h2c')->{body}, 'no upgrade', 'and back with a long head';
    like socket_of($port), qr{^HTTP/1\.1 101 .*\r\n\r\nhello\nupgrade$}s, 'also by a WebSocket';
};

my $tcp = 'http://127.0.0.1:' . $server->port;
for my $case (
    ['over a Unix socket', "http://unix:$dir/app.sock", '', 403],
    ['over TCP with the Host of its client', $tcp, 'proxy_set_header Host $host;', 403],
    ['over TCP with X-Forwarded-For', $tcp, 'proxy_set_header X-Forwarded-For $remote_addr;', 403],
    ['over TCP, which cannot be told from us', $tcp, '', 200],
    )
{
    my ($name, $to, $more, $status) = @$case;
    my $port = free_port();
    nginx("server { listen 127.0.0.1:$port; location / { proxy_pass $to; $more } }", $port);
    like get($port, '/a')->{body}, qr{^app /a for }, "a proxy_pass $name";
    is get($port, '/long')->{status}, 502, 'a long head: 502';
    is get($port, $_)->{status}, $status, "$_: $status" for qw(/server-status /metrics);
}

done_testing;
