# A worker is free once its response is handed over, however it is framed and however its client reads: memory up to
# --response-buffer holds it, then files up to --response-spool. Only without either does the worker wait.
use strict;
use warnings;
use lib 't/lib';

use Digest::MD5 qw(md5_hex);
use Howdah::Test::Client;
use Howdah::Test::Operator;
use Howdah::Test::Server;
use Test::More;
use Time::HiRes qw(sleep);

my $whole    = md5_hex((join '', map { sprintf "%07d\n", $_ } 1 .. 125_000) x 12);
my %framings = (
    'whole, with its length'    => ['/array', '1.1'],
    'streamed, with its length' => ['/given', '1.1'],
    'chunked'                   => ['/stream', '1.1'],
    'until the connection ends' => ['/stream', '1.0'],
);
my %readers = (
    slow => sub {
        my $client = shift;
        for (1 .. 5) { sysread $client->socket, $client->{input}, 128, length $client->{input}; sleep 0.02 }
    },
    stopped => sub { },
    leaves  => sub { my $client = shift; sysread $client->socket, my $some, 128; close $client->socket },
);
my %places = (
    memory => [qw(--response-buffer 32m --response-spool 0)],
    files  => [qw(--response-buffer 64k)],
    none   => [qw(--response-buffer 64k --response-spool 0)],
);

sub ask {
    my ($server, $path, $version) = @_;
    my $client = Howdah::Test::Client->new($server);
    my $next   = $version eq '1.1' ? "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n" : '';
    $client->write("GET $path HTTP/$version\r\nHost: x\r\n\r\n$next");
    return $client;
}

for my $place (sort keys %places) {
    my $operator = Howdah::Test::Operator->new;
    my $server   = Howdah::Test::Server->start(
        file    => 't/apps/large.psgi',
        options => ['--workers', 1, $operator->options, @{$places{$place}}],
    );
    my $spooled = sub {
        my $least = shift;
        $server->wait_until(sub { $operator->status->{spool}{bytes} >= $least });
    };
    for my $framing (sort keys %framings) {
        for my $reader (sort keys %readers) {
            my $what   = "held in $place, $framing, the client is $reader";
            my $client = ask($server, @{$framings{$framing}});
            ok !$client->is_quiet(10), "$what: the response has begun";
            $readers{$reader}->($client);
            my $other = ask($server, '/hello', '1.0');
            if ($place eq 'none' && $reader ne 'leaves') { ok $other->is_quiet(0.3), "$what: the worker waits" }
            else { is $other->response->{status}, 200, "$what: the worker is free" }
            next if $reader eq 'leaves';

            ok $spooled->(1_000_000), "$what: it is in a file" if $place eq 'files';
            my $response = $client->response;
            is md5_hex($response->{body}), $whole, "$what: it arrives whole" or diag explain $response->{error};
            is $other->response->{status}, 200, "$what: the worker is free afterwards" if $place eq 'none';
            like $client->response->{body}, qr/^hello/, "$what: the next request on the connection"
                if $framings{$framing}[1] eq '1.1';
        }
    }
    ok $server->wait_until(sub { $operator->status->{spool}{bytes} == 0 }),
        "held in $place: at last nothing is in files";
}

done_testing;
