# The room of examples/chat.psgi: what a client says is heard by all, whichever worker has them, also when one has left, or its worker
# was killed.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::File qw(read_if_any);
use Howdah::Test::Server;
use Howdah::Test::Tls;
use Howdah::Test::WebSocket;
use Test::More;

plan skip_all => 'needs Protocol::WebSocket' if !Howdah::Test::WebSocket->is_installed;

my @ways = ('plain', Howdah::Test::Tls->is_installed ? 'TLS' : ());
for my $way (@ways) {
    local $ENV{TEST_OVER_TLS} = $way eq 'TLS';
    my $server =
        Howdah::Test::Server->start(file => 'examples/chat.psgi', options => ['--workers', 6], tls => $way eq 'TLS');
    my @clients = map { Howdah::Test::WebSocket->new($server) } 1 .. 4;
    is_deeply [map { $_->status } @clients], [(101) x 4], "$way: four clients";

    my $said = sub {
        my ($speaker, $text) = @_;
        $speaker->say(text => $text);
        return map { join ' ', $_->hear } @clients;
    };
    is_deeply [$said->($clients[2], 'hello')], [('text hello') x 4], 'all hear one of them';

    my $leaving = pop @clients;
    $leaving->say(close => pack 'n', 1000);
    is_deeply [$leaving->hear], ['close', pack 'n', 1000], 'one leaves';
    is_deeply [$said->($clients[0], 'gone?')], [('text gone?') x 3], 'the others go on';

    my ($worker) = grep { read_if_any("/proc/$_/cmdline") =~ / W / } $server->workers;
    kill KILL => $worker;
    my $end = time + 20;
    @clients = grep { !$_->client->is_closed(0.1) } @clients while @clients == 3 && time < $end;
    is scalar @clients, 2, 'a worker is killed, and its client has the end';
    is_deeply [$said->($clients[0], 'still here')], [('text still here') x 2], 'the others go on';

    my $early = Howdah::Test::WebSocket->new($server, behind => Howdah::Test::WebSocket::frame(text => 'early'));
    push @clients, $early;
    is_deeply [map { join ' ', $_->hear } @clients], [('text early') x 3], 'what came behind the handshake is heard';
    my @complaints = grep { /ERROR|WARN/ && !/pid=$worker\b/ } split /\n/, $server->log;
    is "@complaints", '', 'nothing else to complain of';
}

done_testing;
