# Responses of 101: sent as they are given, and behind them the connection is the application's, by psgix.io.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Server;
use Howdah::Test::Tls;
use Test::More;

my $app = <<'PSGI';
my @chat = (Upgrade => 'chat');
my %do = (
    '/both' => sub {
        my ($respond, $env) = @_;
        my $writer = $respond->([101, [@chat, Connection => 'upgrade', 'X-A' => 'b', 'Content-Length' => 7]]);
        $writer->write('hello ');
        my $io = $env->{'psgix.io'};
        while (defined(my $line = <$io>)) { $writer->write("<$line"); print {$io} ">$line" }
    },
    '/records' => sub { local ($\, $,) = ("\n", '-'); my $writer = $_[0]->([101, \@chat]); $writer->write($_) for 1 .. 3 },
    '/writer' => sub { my $writer = $_[0]->([101, \@chat]); $writer->write($_) for 1 .. 3; $writer->close },
    '/first'  => sub {
        my ($respond, $env) = @_;
        print {$env->{'psgix.io'}} "HTTP/1.1 103 Early Hints\r\n\r\n";
        $respond->([101, \@chat, []]);
        print {$env->{'psgix.io'}} 'mine';
    },
    '/dies'   => sub { $_[0]->([101, \@chat, []]); die "in the protocol\n" },
    '/twice'  => sub { $_[0]->([101, \@chat, []]); $_[0]->([200, [], ['twice']]) },
    '/gone'   => sub {
        my $writer = $_[0]->([101, \@chat]);
        for (1 .. 1000) { eval { $writer->write('x' x 65536); 1 } or return warn 'it says ' . ref($@) . "\n" }
    },
    '/plain'  => [101, [@chat, 'Transfer-Encoding' => 'chunked'], ['a body']],
    '/none'   => [101, ['X-A' => 'b'], []],
    '/needed' => [426, [@chat, Connection => 'x'], ['chat is spoken here']],
    '/split'  => [101, [Upgrade => "chat\r\nX: y"], []],
);
sub {
    my $env = shift;
    my $do  = $do{$env->{PATH_INFO}} // [200, [], ['ok']];
    return ref $do eq 'CODE' ? sub { $do->($_[0], $env) } : $do;
};
PSGI

my $asks     = "Connection: Upgrade\r\nUpgrade: chat\r\n";
my $switched = 'HTTP/1\.1 101 Switching Protocols\r\nUpgrade: chat\r\nConnection: Upgrade\r\n\r\n';

# Path, what the request has, what is sent behind it, what comes, and what the log says.
my @cases = (
    [
        '/both', $asks, "one\ntwo\n",
        qr{^HTTP/1\.1 101 Switching Protocols\r\nUpgrade: chat\r\nConnection: upgrade\r\nX-A: b\r\n\r\nhello <one\n>one\n<two\n>two\n\z}
    ],
    ['/writer', $asks, '', qr{^${switched}123\z}],
    ['/records', $asks, '', qr{^${switched}123\z}],
    ['/first', $asks, '', qr{^HTTP/1\.1 103 Early Hints\r\n\r\n${switched}mine\z}],
    ['/plain', $asks, "ignored\n", qr{^$switched\z}, qr{the response was 101, but psgix\.io was not used}],
    ['/dies', $asks, '', qr{^$switched\z}, qr{GET /dies: the application failed: in the protocol}],
    ['/twice', $asks, '', qr{^$switched\z}, qr{GET /twice: .*has already given its response}],
    ['/plain', '', '', qr{^HTTP/1\.1 500 }, qr{101, but the request has no Upgrade field}],
    ['/none', $asks, '', qr{^HTTP/1\.1 500 }, qr{101, but its headers have no Upgrade}],
    [
        '/needed', '', '',
        qr{^HTTP/1\.1 426 Upgrade Required\r\n.*\r\nUpgrade: chat\r\n.*\r\nConnection: Upgrade\r\n\r\nchat is}s
    ],
    ['/split', $asks, '', qr{^HTTP/1\.1 500 }, qr{control character}],
);

sub request { return "GET $_[0] HTTP/$_[2]\r\nHost: x\r\n$_[1]\r\n" }

sub everything {
    my $log    = File::Temp->new;
    my @log    = ('--access-log', "$log", '--access-log-format', '%U %>s');
    my $server = Howdah::Test::Server->start(app => $app, options => ['--workers', 5, @log]);
    for my $case (@cases) {
        my ($path, $fields, $behind, $comes, $logged) = @$case;
        my $client = Howdah::Test::Client->new($server);
        $client->write(request($path, $fields, '1.1') . $behind);
        $client->shut;
        like $client->rest, $comes, "$path " . ($fields ? 'to who asks for it' : 'to who does not');
        ok $server->wait_for_log($logged), '... and the log says what is wrong' if $logged;
    }
    my $old = Howdah::Test::Client->ask($server, request('/plain', $asks, '1.0'));
    is $old->{status}, 500, 'HTTP/1.0 has no 101';
    for my $path ('/none', '/') {
        my $left = Howdah::Test::Client->new($server);
        $left->write(request($path, $asks, '1.1') . request('/', '', '1.1'));
        is $left->response->{status}, $path eq '/' ? 200 : 500, "$path: a connection that was not switched";
        $left->shut;
        is $left->rest, '', '... ends there';
    }
    my $gone = Howdah::Test::Client->new($server);
    $gone->write(request('/gone', $asks, '1.1'));
    is $gone->take(9), 'HTTP/1.1 ', 'a client that leaves';
    close $gone->socket;
    ok $server->wait_for_log(qr/it says Howdah::ClientGone/), '... is what its writer hears of';
    is $server->stop, 0, 'it stops';
    open my $in, '<', "$log" or die $!;
    my @lines = <$in>;
    is scalar(grep { $_ eq "/both 101\n" } @lines), 1, 'the access log has the status';
    return;
}

Howdah::Test::Tls::either_way(\&everything);

done_testing;
