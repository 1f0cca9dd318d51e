# A certificate by ACME that is ordered while the server is replaced by itself: the authority comes to the new process, finds what it wants
# to see, and is asked for nothing twice.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Acme qw(serve_by_acme);
use Howdah::Test::Authority;
use Howdah::Test::File qw(write_file);
use Howdah::Test::Operator;
use Howdah::Test::Ports qw(free_port);
use Howdah::Test::Tls;
use Test::More;

plan skip_all => 'needs IO::Socket::SSL and openssl' if !Howdah::Test::Tls->is_installed;

my @names = ('a.example', 'b.example');
my $port  = free_port();

# Whether an authority that comes now sees a proof of each name: there is no other certificate for who speaks its protocol alone.
sub proven {
    return @names ==
        grep { Howdah::Test::Tls::connect_to($port, SSL_hostname => $_, SSL_alpn_protocols => ['acme-tls/1']) } @names;
}

my $operator  = Howdah::Test::Operator->new;
my $seen      = $operator->dir . '/seen';
my $authority = Howdah::Test::Authority->start(names => \@names, seen => $seen);
my $server    = serve_by_acme($operator, "127.0.0.1:$port", '--acme', join(',', @names), $authority->options);
ok $server->wait_until(sub { $authority->asked('proof-b.example') }), 'an order is under way' or diag $server->log;
ok proven(), 'the authority may look';
my $first = $operator->pid;
for my $time (qw(once again)) {
    my $old = $operator->pid;
    is + ($operator->ask('upgrade'))[0], 0, "the server is replaced $time";
    ok proven(), 'the authority may look at the new process';
    ok $operator->wait_for_end($old), 'which is the only one';
    ok proven(), 'still';
}
isnt $operator->pid, $first;
write_file($seen, '');
ok $server->wait_until(sub { $server->log =~ /there is a certificate for a\.example b\.example/ }),
    'what it has seen counts'
    or diag $server->log;
is $authority->asked('order'), 1, 'it was ordered once';
is_deeply [map { $authority->asked("proof-$_") } @names], [1, 1], 'and proven once';
unlike $server->log, qr/ERROR|no certificate for/, 'nothing has failed';
ok $server->wait_until(sub { !proven() }), 'nothing is shown any more';
my $socket = Howdah::Test::Tls::connect_to($port);
is + ($socket->peer_certificate('subjectAltNames'))[1], 'a.example', 'it is in use';
like $socket->peer_certificate('issuer'), qr/root of the authority/;

done_testing;
