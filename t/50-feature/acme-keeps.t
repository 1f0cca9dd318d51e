# What has been issued, and may be good, is never lost to a clock that is wrong, and no second one is ordered for it.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Authority;
use Howdah::Test::Command qw(run_command);
use Howdah::Test::File qw(read_file write_file);
use Howdah::Test::Operator;
use Howdah::Test::Ports qw(free_port);
use Howdah::Test::Server;
use Howdah::Test::Tls;
use Test::More;

plan skip_all => 'needs IO::Socket::SSL and openssl' if !Howdah::Test::Tls->is_installed;
require IO::Socket::SSL::Utils;

use constant DAY => 24 * 3600;

my ($port, $operator, $authority) = free_port();
my $refusal = "HTTP/1.1 500 x\r\nContent-Length: 0\r\n\r\n";

sub authority {
    $operator  = Howdah::Test::Operator->new;
    $authority = Howdah::Test::Authority->start(names => ['a.example'], @_);
    return $operator->dir . '/acme/' . $authority->place('a.example');
}

sub start {
    return Howdah::Test::Server->start(
        app     => 'sub { [200, [], ["hello"]] }',
        listen  => "127.0.0.1:$port",
        env     => {TEST_OVER_TLS => undef},
        options => [
            '--workers', 1, '--acme', 'a.example', '--acme-dir', $operator->dir . '/acme', $authority->options,
            $operator->options, @_
        ]
    );
}

# Names and issuer of what a client is shown.
sub shown {
    my $socket = Howdah::Test::Tls::connect_to($port) or return 'nothing';
    return join ' ', ($socket->peer_certificate('subjectAltNames'))[1], $socket->peer_certificate('issuer');
}

# A certificate with its key, from so many days ago to so many days ahead.
sub pair {
    my ($from, $to)  = @_;
    my ($cert, $key) = IO::Socket::SSL::Utils::CERT_create(
        not_before      => time + $from * DAY,
        not_after       => time + $to * DAY,
        subject         => {commonName => 'of old'},
        subjectAltNames => [[DNS => 'a.example']]
    );
    return IO::Socket::SSL::Utils::PEM_cert2string($cert) . IO::Socket::SSL::Utils::PEM_key2string($key);
}

subtest 'one that has expired by a clock that may be wrong' => sub {
    my $file   = write_file(authority(instead => {account => $refusal}), pair(-90, -1));
    my $before = read_file($file);
    my $server = start();
    like shown(), qr/^a\.example .*of old/, 'is served';
    ok $server->wait_for_log(qr/ERROR .*the certificate in \Q$file\E has expired/), 'is told';
    ok $server->wait_for_log(qr/no certificate for a\.example: .*500.*next try/), 'while another is ordered';
    is read_file($file), $before, 'and stays';
};

subtest 'one that is to be renewed as soon as it is issued' => sub {
    my $file   = authority(days => 0);
    my $server = start();
    ok $server->wait_for_log(qr/no certificate for a\.example: .*is the clock right\?; the next try is in \d{5,6} s/),
        'is told, and nothing is ordered for a day'
        or diag $server->log;
    like + (run_command(qw(openssl x509 -noout -issuer -in), $file))[1], qr/root of the authority/, 'and it is kept';
    is $server->stop, 0;
    $server = start();
    like shown(), qr/root of the authority/, 'the next start serves it';
};

subtest 'what another process has had issued' => sub {
    my $file   = authority(instead => {account => $refusal});
    my $server = start();
    ok $server->wait_for_log(qr/no certificate for a\.example: .*500.*next try/), 'an order fails';
    write_file($file, pair(-1, 89));
    $operator->ask('reload');
    ok $server->wait_until(sub { !$operator->status->{tls}{certificates}[0]{trouble} }, 20), 'ends the trouble'
        or diag $server->log;
    like shown(), qr/of old/, 'and is taken over';
};

done_testing;
