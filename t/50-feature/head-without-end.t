# A HEAD of what has no end, such as a stream of events: its client has all that there is for it, and its worker is not kept for it
# as long as the connection lives.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Frames;
use Howdah::Test::Server;
use Howdah::Test::Tls;
use Test::More;

my $app = <<'PSGI';
sub {
    my $env = shift;
    return [200, [], ["$$"]] if $env->{PATH_INFO} ne '/events';
    return sub {
        my $writer = shift->([200, ['Content-Type' => 'text/event-stream']]);
        print STDERR "begins\n";
        eval { while (1) { $writer->write(": still here\n\n"); select undef, undef, undef, 0.05 } };
        print STDERR ref $@ eq 'Howdah::ClientGone' ? "is let go\n" : "dies: $@\n";
        $writer->close;
    };
};
PSGI

sub start { return Howdah::Test::Server->start(app => $app, options => ['--workers', 1]) }

sub is_let_go {
    my $server = shift;
    return $server->wait_until(sub { $server->log =~ /is let go/ });
}

Howdah::Test::Tls::either_way(sub {
    my $server = start();
    my $client = Howdah::Test::Client->new($server);
    $client->write("HEAD /events HTTP/1.1\r\nHost: x\r\n\r\n");
    is $client->response(head => 1)->{status}, 200, 'by HTTP/1 a client has its head';
    ok $server->wait_for_log(qr/begins/);
    $client->write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    is_deeply [$server->workers], [$client->response->{body}], 'and what it asks for next on the connection';
    ok is_let_go($server), '... since the code behind the head is let go';
    unlike $server->log, qr/ERROR/;
});

Howdah::Test::Tls::either_way(sub {
    my $server = start();
    my $client = Howdah::Test::Frames->new($server);
    $client->request(1, '/events', method => 'HEAD');
    ok $client->response(1)->{end}, 'by HTTP/2 a client has its head, and the end of the stream';
    close $client->socket;
    ok is_let_go($server), 'when it has closed its connection, the code is let go';
});

done_testing;
