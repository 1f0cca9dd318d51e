# Responses that lie in files while the server changes around them: workers are killed, a new generation comes, the
# program replaces itself, the server stops. What was handed over arrives whole, also where the connection is reset behind it,
# since its end would say that this was all or since another request lies there unread; what was not is never taken for whole.
use strict;
use warnings;
use lib 't/lib';

use Digest::MD5 qw(md5_hex);
use Howdah::Test::Client;
use Howdah::Test::Operator;
use Howdah::Test::Server;
use Test::More;

my $whole = md5_hex((join '', map { sprintf "%07d\n", $_ } 1 .. 125_000) x 12);

sub start {
    my $operator = Howdah::Test::Operator->new;
    my @options  = ('--workers', 1, '--response-buffer', '64k', $operator->options, @_);
    return ($operator, Howdah::Test::Server->start(file => 't/apps/large.psgi', options => \@options));
}

sub ask {
    my ($server, $path, $version) = @_;
    my $client = Howdah::Test::Client->new($server);
    $client->write("GET $path HTTP/" . ($version // '1.1') . "\r\nHost: x\r\n\r\n");
    return $client;
}

# Responses that their worker is through with, and that are in files.
sub handed_over {
    my ($operator, $server, @paths) = @_;
    my @clients = map { ask($server, $_) } @paths;
    my $status;
    my $held = sub {
        $status = $operator->status;
        return
               $status->{spool}{bytes} > @paths * 3_000_000
            && !$status->{queue}{depth}
            && $status->{workers}{list}[0]{state} eq 'idle';
    };
    ok $server->wait_until($held), 'the worker is free, the responses are in files' or diag explain $status;
    return @clients;
}

sub are_whole {
    my ($what, @clients) = @_;
    return is scalar(grep { md5_hex($_->response->{body}) eq $whole } @clients), scalar @clients, $what;
}

my @paths = qw(/array /given /stream);

subtest 'a worker is killed' => sub {
    my ($operator, $server) = start();
    my @over = handed_over($operator, $server, @paths);
    for my $number (1, 2) {
        my $version = $number == 1 ? '1.1' : '1.0';
        my $half    = ask($server, '/half', $version);
        $half->write("GET /hello HTTP/1.1\r\nHost: x\r\n\r\n") if $number == 1;
        ok $server->wait_for_log(qr/(?:half\n.*){$number}/s), "HTTP/$version: a worker is half through its response";
        my ($worker) = $server->workers;
        kill KILL => $worker;
        ok $server->wait_until(sub { my ($new) = $server->workers; $new && $new != $worker }), 'another worker comes';
        my $response = $half->response;
        is length $response->{body}, 6_000_000, 'the client has what it had handed over';
        ok $response->{error} || $half->{reset}, 'and it can tell';
    }
    are_whole('those of earlier requests are not', @over);
    is ask($server, '/hello')->response->{status}, 200, 'and the server serves';
};

subtest 'a reload' => sub {
    my ($operator, $server) = start();
    my @over = handed_over($operator, $server, @paths);
    is + ($operator->ask('reload'))[0], 0, 'is not held up';
    are_whole('the responses of the old generation are whole', @over);
    like $_->response->{body}, qr/^hello/, 'and their connections go on'
        for map { $_->write("GET /hello HTTP/1.1\r\nHost: x\r\n\r\n"); $_ } @over;
};

subtest 'an upgrade' => sub {
    my ($operator, $server) = start();
    my @over = handed_over($operator, $server, @paths);
    is + ($operator->ask('upgrade'))[0], 0, 'is not held up';
    like ask($server, '/hello')->response->{body}, qr/^hello/, 'the new process serves';
    are_whole('the old one sends what it has', @over);
    is $server->wait_for_exit, 0, 'and ends';
};

subtest 'a stop' => sub {
    my ($operator, $server) = start();
    my @over = handed_over($operator, $server, @paths);
    $server->signal('TERM');
    ok $server->wait_for_log(qr/stopping/), 'waits';
    are_whole('until the clients have their responses', @over);
    is $server->wait_for_exit, 0, 'and the server ends';
};

subtest 'a stop with a client that does not read' => sub {
    my ($operator, $server) = start(qw(--graceful-timeout 1s));
    my ($over) = handed_over($operator, $server, '/given');
    is $server->stop, 0, 'ends by the graceful timeout';
    ok $over->response->{error}, 'which cuts it off';
};

done_testing;
