# What an authority for certificates has beside them: profiles, of which one may be chosen, and advice on when to renew.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Acme qw(serve_by_acme);
use Howdah::Test::Authority;
use Howdah::Test::Command qw(run_command);
use Howdah::Test::File qw(write_file);
use Howdah::Test::Operator;
use Howdah::Test::Ports qw(free_port);
use Howdah::Test::Tls;
use JSON::PP ();
use POSIX ();
use Test::More;

plan skip_all => 'needs IO::Socket::SSL and openssl' if !Howdah::Test::Tls->is_installed;
require IO::Socket::SSL::Utils;

use constant DAY => 24 * 3600;

my ($port, $operator, $authority) = free_port();

sub start {
    my ($wish, @options) = @_;
    $operator  = Howdah::Test::Operator->new;
    $authority = Howdah::Test::Authority->start(names => ['a.example'], %$wish);
    $wish->{before}->() if $wish->{before};
    return serve_by_acme($operator, "127.0.0.1:$port", '--acme', 'a.example', $authority->options, @options);
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

# A certificate with its key, of which most is left.
sub pair {
    my @root = IO::Socket::SSL::Utils::CERT_create(CA => 1, subject => {commonName => 'of old'});
    my ($cert, $key) = IO::Socket::SSL::Utils::CERT_create(
        issuer          => \@root,
        serial          => 0x01020304,
        not_before      => time - 20 * DAY,
        not_after       => time + 70 * DAY,
        subject         => {commonName => 'a.example'},
        subjectAltNames => [[DNS => 'a.example']]
    );
    return IO::Socket::SSL::Utils::PEM_cert2string($cert) . IO::Socket::SSL::Utils::PEM_key2string($key);
}

# By which the authority knows us.
sub account {
    my ($status, $key) = run_command(qw(openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256));
    ($key = join '', grep { !/-/ } split /\n/, $key) =~ tr{+/=}{-_}d;
    my $directory = ($authority->options)[1];
    return JSON::PP::encode_json({id => $directory =~ s/dir\z/account-1/r, key_pkcs8 => $key, directory => $directory});
}

# What an authority says of when to renew, in days from now.
sub advice {
    my ($from, $to, @fields) = @_;
    my ($start, $end) = map { POSIX::strftime('%Y-%m-%dT%H:%M:%SZ', gmtime time + $_ * DAY) } $from, $to;
    my $content =
        JSON::PP::encode_json(
        {suggestedWindow => {start => $start, end => $end}, explanationURL => 'https://a.example/why'});
    my $fields = join "\r\n", @fields, 'Content-Type: application/json', 'Content-Length: ' . length $content;
    return "HTTP/1.1 200 OK\r\n$fields\r\n\r\n$content";
}

sub start_with_one {
    my %wish = @_;
    return start({
        %wish,
        before => sub {
            my $file = write_file($operator->dir . '/acme/' . $authority->place('a.example'), pair());
            write_file($file =~ s{[^/]+\z}{account.json}r, account());
        }
    });
}

for (['with a time to ask again', 'Retry-After: 21600'], ['without']) {
    my ($how, @fields) = @$_;
    subtest "advice to renew at once, $how" => sub {
        my $server = start_with_one(instead => {renewal => advice(-2, -1, @fields)});
        ok $server->wait_until(\&is_issued, 40), 'is taken' or diag $server->log;
        like $authority->said('order')->{replaces}, qr/^[\w-]+\.AQIDBA\z/, 'it is said which one is replaced';
        ok $server->wait_for_log(qr{wants the certificate for a\.example to be replaced .*: https://a\.example/why}),
            'and why'
            or diag $server->log;
        ok $server->wait_until(sub { $authority->asked('renewal') == 2 }, 40), 'of the new one the same is said';
        sleep 1;
        is $authority->asked('order'), 1, 'which is not taken so soon';
    };
}

subtest 'other advice' => sub {
    for (
        ['to wait', advice(40, 41)], ['nonsense', advice(-2, -1) =~ s/202/the /gr],
        ['none', "HTTP/1.1 404 x\r\nContent-Length: 0\r\n\r\n"]
        )
    {
        my ($what, $answer) = @$_;
        my $server = start_with_one(instead => {renewal => $answer});
        ok $server->wait_until(sub { $authority->asked('renewal') }, 40), $what or diag $server->log;
        sleep 1;
        is $authority->asked($_), 0, "no $_" for qw(nonce order);
        is $operator->status->{tls}{certificates}[0]{trouble}, undef, 'and no trouble';
        ok !is_issued(), 'what there was serves';
    }
};

subtest 'an authority that does not want to hear what is replaced' => sub {
    my $problem = '{"type": "urn:ietf:params:acme:error:alreadyReplaced", "detail": "it is"}';
    my $fields  = join "\r\n", 'Content-Type: application/problem+json', 'Replay-Nonce: a',
        'Content-Length: ' . length $problem;
    my $server = start_with_one(
        instead => {renewal => advice(-2, -1)},
        first   => {order   => "HTTP/1.1 409 x\r\n$fields\r\n\r\n$problem"}
    );
    ok $server->wait_until(\&is_issued, 40), 'issues all the same' or diag $server->log;
    is $authority->said('order')->{replaces}, undef, 'since nothing is said of it';
    is $authority->asked('order'), 2;
};

done_testing;
