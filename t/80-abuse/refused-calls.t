# The kernel refuses the front something that a connection needs, for want of memory or since a disk fails: whoever is cut off by that
# has done nothing wrong, so the log says why, and the counters do not take it for a client that has left. Others are served.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Inject;
use Howdah::Test::Operator;
use Howdah::Test::Server;
use Howdah::Test::Tls;
use Test::More;

my $get = sub { "GET $_[0] HTTP/1.1\r\nHost: x\r\n\r\n" };

# From now on these calls of the server fail like this, if there is strace.
sub refuse {
    my ($server, $calls, $error) = @_;
    return Howdah::Test::Inject->new($server->pid, "$calls:error=$error");
}

sub start {
    my $operator = Howdah::Test::Operator->new;
    my @options  = ('--workers', 1, '--response-buffer', '64k', $operator->options, @_);
    return ($operator, Howdah::Test::Server->start(file => 't/apps/large.psgi', options => \@options));
}

sub failures {
    my ($operator, @causes) = @_;
    my $all = $operator->status->{requests}{failures};
    return join ' ', map { "$_ $all->{$_}" } @causes;
}

my @causes = qw(out_of_resources client_gone);

for my $error (qw(ENOBUFS ENOMEM)) {
    subtest "no memory for what is sent: $error" => sub {
        my ($operator, $server) = start();
        my $client = Howdah::Test::Client->new($server);
        $client->write($get->('/hello'));
        is $client->response->{status}, 200;
        my $refused = refuse($server, 'sendto,sendmsg', $error) or plan skip_all => Howdah::Test::Inject->NEEDS;
        $client->write($get->('/hello'));
        ok $client->is_closed, 'the client is cut off';
        $refused->end;
        ok $server->wait_for_log(qr/ERROR front: cannot write to a connection, and closed it: .*memory/m),
            '... and the log says why';
        is failures($operator, @causes), 'out_of_resources 1 client_gone 0', '... as the counters do';
        is +Howdah::Test::Client->ask($server, $get->('/hello'))->{status}, 200, 'others are served';
        is $server->stop, 0;
    };
}

subtest 'no memory for what is received' => sub {
    my ($operator, $server) = start();
    my $client  = Howdah::Test::Client->new($server);
    my $refused = refuse($server, 'recvfrom', 'ENOMEM') or plan skip_all => Howdah::Test::Inject->NEEDS;
    $client->write($get->('/hello'));
    ok $client->is_closed, 'the client is cut off';
    $refused->end;
    ok $server->wait_for_log(qr/ERROR front: cannot read from a connection, and closed it: .*memory/m),
        '... and the log says why';
    is +Howdah::Test::Client->ask($server, $get->('/hello'))->{status}, 200, 'others are served';
    is $server->stop, 0;
};

# A plain connection, to which the kernel sends what lies in the file, and one by TLS, for which it is read.
for my $call (qw(sendfile pread64)) {
    subtest "a disk that fails: $call" => sub {
        my $tls = $call eq 'pread64';
        plan skip_all => 'needs IO::Socket::SSL and openssl' if $tls && !Howdah::Test::Tls->is_installed;
        local $ENV{TEST_OVER_TLS} = $tls;
        my ($operator, $server) = start();
        my $client = Howdah::Test::Client->new($server);
        $client->write($get->('/array'));
        ok $server->wait_until(sub { $operator->status->{spool}{bytes} > 1_000_000 }), 'a response is in a file';
        my $refused = refuse($server, $call, 'EIO') or plan skip_all => Howdah::Test::Inject->NEEDS;
        my $length  = length $client->rest;
        $refused->end;
        cmp_ok $length, '<', 12_000_000, 'it breaks off';
        ok $server->wait_for_log(
            qr/cannot send a response that its client takes slowly from its file.*: .*error.*--spool-dir/m),
            '... and the log says why';
        is failures($operator, @causes), 'out_of_resources 1 client_gone 0', '... as the counters do';
        is $operator->status->{spool}{bytes}, 0, 'nothing is left of it';
        is +Howdah::Test::Client->ask($server, $get->('/hello'))->{status}, 200, 'others are served';
        is $server->stop, 0;
    };
}

subtest 'no sockets for an application that takes a connection' => sub {
    plan skip_all => 'needs IO::Socket::SSL and openssl' if !Howdah::Test::Tls->is_installed;
    local $ENV{TEST_OVER_TLS} = 1;
    my $app     = 'sub { eval { $_[0]{"psgix.io"}->syswrite("x") }; [503, [], [$@]] }';
    my $server  = Howdah::Test::Server->start(app => $app, options => ['--workers', 1]);
    my $refused = refuse($server, 'socketpair', 'ENFILE') or plan skip_all => Howdah::Test::Inject->NEEDS;
    my $client  = Howdah::Test::Client->new($server);
    $client->write($get->('/'));
    like $client->response->{body}, qr/psgix[.]io/, 'it hears that it gets none';
    $refused->end;
    ok $server->wait_for_log(qr/no sockets for .*: .*fs\.file-max/), '... and the log says why, and what to raise';
    is $server->stop, 0;
};

done_testing;
