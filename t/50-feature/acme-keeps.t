# What has been issued, and may be good, is never lost: not to a clock that is wrong, nor to the end of a process, nor to an
# answer that fails. And no second one is ordered for it.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Acme qw(serve_by_acme);
use Howdah::Test::Authority;
use Howdah::Test::Command qw(run_command);
use Howdah::Test::File qw(read_file write_file);
use Howdah::Test::Operator;
use Howdah::Test::Ports qw(free_port);
use Howdah::Test::Tls;
use JSON::PP ();
use Test::More;

plan skip_all => 'needs IO::Socket::SSL and openssl' if !Howdah::Test::Tls->is_installed;
require IO::Socket::SSL::Utils;

use constant DAY => 24 * 3600;
alarm 600;    # there are several waits after failures

my ($port, $operator, $authority) = free_port();
my $refusal = "HTTP/1.1 500 x\r\nContent-Length: 0\r\n\r\n";

sub authority {
    $operator  = Howdah::Test::Operator->new;
    $authority = Howdah::Test::Authority->start(names => ['a.example'], @_);
    return $operator->dir . '/acme/' . $authority->place('a.example');
}

sub start {
    return serve_by_acme($operator, "127.0.0.1:$port", '--acme', 'a.example', $authority->options, @_);
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

subtest 'one that is issued while nobody can have it' => sub {
    authority(first => {chain => $refusal});
    my $server = start();
    ok $server->wait_for_log(qr/no certificate for a\.example: the authority issues no certificate: .*500/),
        'an answer that fails'
        or diag $server->log;
    $operator->ask('reload');    # which makes the wait short
    ok $server->wait_until(sub { shown() =~ /root of the authority/ }, 40), 'is asked for again' or diag $server->log;
    is $authority->asked($_), 1, "no second $_" for qw(order finalize);
    is_deeply [glob $operator->dir . '/acme/*/*.order'], [], 'nothing is left of the order';

    authority(first => {chain => sub { sleep 100 }});
    $server = start();
    ok $server->wait_until(sub { $authority->asked('chain') }, 40), 'an answer that does not come';
    $server->stop('KILL');
    $server = start();
    $server->wait_for_log(qr/the next try is in \d+ s, or at a reload/);
    $operator->ask('reload');
    ok $server->wait_until(sub { shown() =~ /root of the authority/ }, 40), 'is had by the next process'
        or diag $server->log;
    is $authority->asked($_), 1, "no second $_" for qw(order finalize);
};

subtest 'an order of which an answer is lost while names are proven' => sub {
    my @names = ('a.example', 'b.example');
    $operator = Howdah::Test::Operator->new;
    my $seen = $operator->dir . '/seen';
    $authority =
        Howdah::Test::Authority->start(names => \@names, seen => $seen, first => {'name-b.example' => $refusal});
    my $server = serve_by_acme($operator, "127.0.0.1:$port", '--acme', join(',', @names), $authority->options);
    ok $server->wait_for_log(qr/no certificate for a\.example b\.example: .*what it wants to see: .*500.*next try/),
        'is not fulfilled yet'
        or diag $server->log;
    my %looks = (SSL_hostname => 'a.example', SSL_alpn_protocols => ['acme-tls/1']);
    ok + Howdah::Test::Tls::connect_to($port, %looks), 'but the authority finds what it comes for meanwhile';
    ok $server->wait_until(sub { $authority->asked('proof-b.example') }, 40), 'the next try goes on'
        or diag $server->log;
    write_file($seen, '');
    ok $server->wait_until(sub { shown() =~ /root of the authority/ }, 40), '... to its end' or diag $server->log;
    is $authority->asked('order'), 1, 'with the same order';
    is_deeply [map { $authority->asked("proof-$_") } @names], [1, 1], 'and the authority is told once that it may look';
    ok $server->wait_until(sub { !Howdah::Test::Tls::connect_to($port, %looks) }), 'then nothing is shown any more';
};

subtest 'an order that leads to nothing' => sub {
    for ('404 x', '500 x') {
        my $file = authority(instead => {old => "HTTP/1.1 $_\r\nContent-Length: 0\r\n\r\n"});
        my (undef, $key) = run_command(qw(openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256));
        my $url  = ($authority->options)[1] =~ s/dir\z/old/r;
        my $kept = {order => $url, key => $key, at => /404/ ? time : time - 2 * DAY};
        write_file($file =~ s/pem\z/order/r, JSON::PP::encode_json($kept));
        my $server = start();
        ok $server->wait_until(sub { shown() =~ /root of the authority/ }, 40), "keeps nobody from another: $_"
            or diag $server->log;
        is $authority->asked('old'), 1, 'and is asked for once';
    }
};

subtest 'an order that is fulfilled already, with a key that is not here' => sub {
    my $other  = '{"status": "valid", "authorizations": [], "finalize": "https://localhost/"}';
    my $fields = join "\r\n", 'Location: https://localhost/', 'Replay-Nonce: a', 'Content-Length: ' . length $other;
    authority(instead => {order => "HTTP/1.1 201 x\r\n$fields\r\n\r\n$other"});
    my $server = start();
    ok $server->wait_for_log(qr/no certificate for a\.example: .*is fulfilled already/, 20), 'is told at once'
        or diag $server->log;
};

done_testing;
