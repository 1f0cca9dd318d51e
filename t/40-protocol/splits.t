# Where the network cuts a request makes no difference: the same answer for every cut.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Server;
use JSON::PP qw(decode_json);
use Test::More;
use Time::HiRes qw(sleep);

my $server = Howdah::Test::Server->start(file => 't/apps/echo.psgi', options => ['--workers', 2]);

my %requests = (
    'by length' => "POST /a%20b?c HTTP/1.1\r\nHost: x\r\nX-One: 1\r\nX-Two: 2\r\nContent-Length: 5\r\n\r\ncamel",
    'in chunks' =>
        "POST /a%20b?c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2;e=1\r\nca\r\n3\r\nmel\r\n0\r\nT: t\r\n\r\n",
    'two pipelined' =>
        "\r\nGET /a%20b?c HTTP/1.1\r\nHost: x\r\n\r\nPOST /a%20b?c HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\ncamel",
);

# Requests cut in two at every byte, all cuts of a request at once on connections of their own.
for my $name (sort keys %requests) {
    my $bytes   = $requests{$name};
    my @clients = map { Howdah::Test::Client->new($server) } 1 .. length($bytes) - 1;
    $clients[$_ - 1]->write(substr $bytes, 0, $_) for 1 .. @clients;
    sleep 0.1;
    $clients[$_ - 1]->write(substr $bytes, $_) for 1 .. @clients;
    my @wrong;
    for my $cut (1 .. @clients) {
        my @answers = map { $clients[$cut - 1]->response } 1 .. ($name =~ /two/ ? 2 : 1);
        my $last    = eval { decode_json($answers[-1]{body}) } // {};
        push @wrong, $cut if ($last->{body} // '') ne 'camel' || $last->{env}{PATH_INFO} ne '/a b';
    }
    is_deeply \@wrong, [], "$name: any cut";
}

subtest 'byte by byte' => sub {
    for my $name (sort keys %requests) {
        my $client = Howdah::Test::Client->new($server);
        setsockopt $client->socket, Socket::IPPROTO_TCP(), Socket::TCP_NODELAY(), 1;
        $client->write($_) for split //, $requests{$name};
        my @answers = map { $client->response } 1 .. ($name =~ /two/ ? 2 : 1);
        is eval { decode_json($answers[-1]{body})->{body} }, 'camel', $name;
    }
};

subtest 'a request cut off is never run' => sub {
    my $before = decode_json(Howdah::Test::Client->ask($server, "GET / HTTP/1.0\r\n\r\n")->{body})->{calls};
    for my $cut (1, 20, 60, length($requests{'by length'}) - 1) {
        my $client = Howdah::Test::Client->new($server);
        $client->write(substr $requests{'by length'}, 0, $cut);
        $client->shut;
        like $client->rest, qr{^(?:|HTTP/1.1 400 .*)$}s, "after $cut bytes";
    }
    my $calls = 0;
    for (1 .. 8) {    # both workers
        my $answer = decode_json(Howdah::Test::Client->ask($server, "GET / HTTP/1.0\r\n\r\n")->{body});
        unlike $answer->{body}, qr/came/;
    }
};

done_testing;
