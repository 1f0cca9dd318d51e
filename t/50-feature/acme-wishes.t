# What an authority for certificates has beside them: profiles, of which one may be chosen.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Authority;
use Howdah::Test::Operator;
use Howdah::Test::Ports qw(free_port);
use Howdah::Test::Server;
use Howdah::Test::Tls;
use Test::More;

plan skip_all => 'needs IO::Socket::SSL and openssl' if !Howdah::Test::Tls->is_installed;

my ($port, $operator, $authority) = free_port();

sub start {
    my ($wish, @options) = @_;
    $operator  = Howdah::Test::Operator->new;
    $authority = Howdah::Test::Authority->start(names => ['a.example'], %$wish);
    return Howdah::Test::Server->start(
        app     => 'sub { [200, [], ["hello"]] }',
        listen  => "127.0.0.1:$port",
        env     => {TEST_OVER_TLS => undef},
        options => [
            '--workers', 1, '--acme', 'a.example', '--acme-dir', $operator->dir . '/acme', $authority->options,
            $operator->options, @options
        ]
    );
}

sub is_issued {
    my $socket = Howdah::Test::Tls::connect_to($port) or return 0;
    return $socket->peer_certificate('issuer') =~ /root of the authority/;
}

subtest 'a profile' => sub {
    my $server = start({profiles => ['classic', 'shortlived']}, '--acme-profile', 'shortlived');
    ok $server->wait_until(\&is_issued, 40), 'that is offered' or diag $server->log;
    is $authority->said('order')->{profile}, 'shortlived', 'is asked for';
    for (['classic', 'shortlived'], []) {
        $server = start({profiles => $_}, '--acme-profile', 'longlived');
        my $offered = join(', ', @$_) || 'which it has none';
        ok $server->wait_for_log(
            qr/no certificate for a\.example: the authority does not offer the profile longlived: .*, of $offered;/),
            'others are told'
            or diag $server->log;
        is $authority->asked('order'), 0, '... and not asked for';
    }
    $server = start({profiles => ['classic']});
    ok $server->wait_until(\&is_issued, 40), 'none' or diag $server->log;
    is $authority->said('order')->{profile}, undef, '... leaves it to the authority';
};

done_testing;
