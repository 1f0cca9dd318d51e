# A client breaks its upload off between the moment at which a worker has taken its request and that at which it asks for the body, which
# is a file: the body goes with the client, and that is nobody's error.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Frames qw(LAST);
use Howdah::Test::Inject;
use Howdah::Test::Operator;
use Howdah::Test::Scripts;
use Howdah::Test::Server;
use Test::More;

# More than finds room in shared memory.
use constant {LENGTH => (1 << 20) + 1, PIECE => 16_000};

my $scripts = Howdah::Test::Scripts->new('up.cgi' => qq(#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'; wc -c\n));
my $app     = 'sub { [200, [], [length do { local $/; readline $_[0]{"psgi.input"} }]] }';

my @free = ('--http2-window', '4m');

# Where the upload goes, whose processes answer it, and the server.
my %cases = (
    'an application' => [
        '/', 'worker',
        sub { Howdah::Test::Server->start(app => $app, options => ['--workers', 1, @free, @_]) }
    ],
    'a script that is executed' => ['/c/up.cgi', 'cgi-host', sub { $scripts->serve('exec', ['workers=1'], @free, @_) }],
);

for my $what (sort keys %cases) {
    subtest $what => sub {
        my ($path, $process, $start) = @{$cases{$what}};
        my $operator = Howdah::Test::Operator->new;
        my $server   = $start->($operator->options);
        my $client   = Howdah::Test::Frames->new($server);
        $client->request(1, $path);
        ok $client->response(1)->{end}, 'and with it comes what the server has settled';
        my $upload = sub {
            my ($stream, $left) = ($_[0], LENGTH);
            $client->request($stream, $path, method => 'POST', open => 1);
            while ($left > 0) {
                my $length = $left < PIECE ? $left : PIECE;
                $left -= $length;
                $client->send(DATA => $left ? 0 : LAST, $stream, 'x' x $length);
            }
        };
        $upload->(3);
        like $client->response(3)->{body}, qr/^\s*${\LENGTH}\s*$/, 'a body that a worker has from a file';
        my ($pid) = $server->processes($process);
        my $inject = Howdah::Test::Inject->new($pid, 'sendmsg:delay_enter=3000000')
            or plan skip_all => Howdah::Test::Inject->NEEDS;
        $upload->(5);
        ok $server->wait_until(sub { busy($operator) }), 'a worker has taken the request of another one';
        $client->send(RST_STREAM => 0, 5, pack 'N', 8);
        ok $server->wait_until(sub { !busy($operator) }), 'and is free soon after its client has left';
        $inject->end;
        $upload->(7);
        like $client->response(7)->{body}, qr/^\s*${\LENGTH}\s*$/, 'it serves others';
        unlike $server->log, qr/ERROR/, 'nothing to complain of';
    };
}

sub busy {
    my @lists = map { $_->{workers}{list} } @{$_[0]->status->{pools}};
    return scalar grep { $_->{state} eq 'busy' } map { @$_ } @lists;
}

done_testing;
