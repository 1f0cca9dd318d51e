# Bodies over TLS: large, in chunks, from files, to clients that read slowly, and cut short by either side.
use strict;
use warnings;
use lib 't/lib';
BEGIN { $ENV{TEST_OVER_TLS} = 1 }

use Digest::MD5 qw(md5_hex);
use File::Temp ();
use Howdah::Test::Client;
use Howdah::Test::Server;
use Howdah::Test::Tls;
use Test::More;
use Time::HiRes qw(sleep);

plan skip_all => 'needs IO::Socket::SSL and openssl' if !Howdah::Test::Tls->is_installed;

my $file  = File::Temp->new;
my $bytes = join '', map { pack 'N', $_ * 2654435761 % 4294967296 } 1 .. 1_250_000;    # 5 MB
print {$file} $bytes;
close $file or die $!;

my $app = <<'PSGI';
use Digest::MD5 qw(md5_hex);
my %of = (
    '/file'   => sub { open my $in, '<:raw', $ENV{FILE} or die $!; [200, ['Content-Length', -s $in], $in] },
    '/bytes'  => sub { open my $in, '<:raw', $ENV{FILE} or die $!; local $/; [200, [], [<$in>]] },
    '/stream' => sub {
        sub { my $out = $_[0]->([200, []]); $out->write('x' x 70_000) for 1 .. 30; $out->close }
    },
    '/io'   => sub { my $io = $_[0]{'psgix.io'}; my $fd = eval { $io->fileno }; [200, [], [$fd // $@]] },
    '/slow' => sub { select undef, undef, undef, 0.5; [200, [], ['late']] },
);
sub {
    my $env  = shift;
    my $body = '';
    1 while $env->{'psgi.input'}->read($body, 65536, length $body);
    warn "ran $env->{PATH_INFO}\n";
    return $of{$env->{PATH_INFO}} ? $of{$env->{PATH_INFO}}->($env) : [200, [], [md5_hex($body)]];
};
PSGI
my @slow   = ('--response-buffer', '64k', '--min-send-rate', 0);
my $server = Howdah::Test::Server->start(app => $app, env => {FILE => "$file"}, options => ['--workers', 2, @slow]);

sub get { return "GET $_[0] HTTP/1.1\r\nHost: x\r\n\r\n" }

subtest 'one connection has them all, one behind the other' => sub {
    my $client = Howdah::Test::Client->new($server);
    $client->write(get('/file') . get('/bytes') . get('/stream') . get('/file'));
    is md5_hex($client->response->{body}), md5_hex($bytes), $_ for 'a file', 'from memory';
    is length $client->response->{body}, 30 * 70_000, 'in pieces';
    is md5_hex($client->response->{body}), md5_hex($bytes), 'a file again';
    $client->write("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: " . length($bytes) . "\r\n\r\n$bytes");
    is $client->response->{body}, md5_hex($bytes), 'a large body';
    my $chunks = join '', map { sprintf "%x\r\n%s\r\n", length, $_ } unpack '(a70001)*', $bytes;
    $client->write("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n${chunks}0\r\n\r\n" . get('/'));
    is $client->response->{body}, md5_hex($bytes), 'in chunks';
    is $client->response->{body}, md5_hex(''), 'and what came behind';
};

for my $path ('/file', '/bytes', '/stream') {
    subtest "$path for a client that reads slowly" => sub {
        my $client = Howdah::Test::Client->new($server);
        $client->write(get($path));
        sleep 1;
        my $other = Howdah::Test::Client->ask($server, get('/'));
        is $other->{status}, 200, 'others are served';
        my $response = $client->response;
        is $response->{error}, '', 'whole';
        my $expected = $path eq '/stream' ? 'x' x 2_100_000 : $bytes;
        is md5_hex($response->{body}), md5_hex($expected), 'every byte';
        $client->write(get('/'));
        is $client->response->{status}, 200, 'and the connection goes on';
    };
}

subtest 'the end of either side' => sub {
    my $client = Howdah::Test::Client->new($server);
    $client->write(get('/slow'));
    ok $client->shut, 'a client that says that it sends no more';
    is $client->response->{body}, 'late', 'has its answer';
    ok $client->is_closed, 'and our end';
    my $asked = Howdah::Test::Client->new($server);
    $asked->write("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    is $asked->response->{status}, 200, 'who asks for the end';
    ok $asked->is_closed, 'has it';
    my $ssl = $asked->socket->_get_ssl_object;
    ok Net::SSLeay::get_shutdown($ssl) & 2, 'in the way of TLS';
};

subtest 'a request that is cut short is not run' => sub {
    my $client = Howdah::Test::Client->new($server);
    $client->write("POST /cut HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" . 'x' x 50_000);
    shutdown $client->socket, 1;    # below TLS: somebody between
    ok $client->is_closed, 'closed';
    my $silent = Howdah::Test::Client->new($server);
    $silent->write("POST /cut HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n" . 'x' x 50);
    $silent->shut;
    ok $silent->is_closed, 'also when the client ends it in order';
    unlike $server->log, qr{ran /cut}, 'nothing ran';
};

subtest 'psgix.io' => sub {
    my $response = Howdah::Test::Client->ask($server, get('/io'));
    like $response->{body}, qr/^\d+$/, 'is a descriptor, that of a socket pair';
};

is $server->stop, 0, 'and it stops';

done_testing;
