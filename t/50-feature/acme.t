# Certificates by ACME, from a real authority: ordered when there is none, kept, renewed in time; and what is said when the
# authority finds no proof.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Acme qw(serve_by_acme);
use Howdah::Test::Authority;
use Howdah::Test::Client;
use Howdah::Test::Command qw(run_command run_howdah);
use Howdah::Test::Operator;
use Howdah::Test::Pebble;
use Howdah::Test::Ports qw(free_port);
use Howdah::Test::Tls;
use JSON::PP ();
use Test::More;

plan skip_all => 'needs IO::Socket::SSL and openssl' if !Howdah::Test::Tls->is_installed;
plan skip_all => 'needs pebble (Debian has a package)' if !Howdah::Test::Pebble->is_installed;

alarm 600;    # a renewal takes its time

my ($tls, $http) = map { free_port() } 1, 2;
my $nobody = free_port();

sub start {
    my ($operator, @options) = @_;
    my @first = ('-l', "tls:127.0.0.1:$tls", '--redirect-to-https', "127.0.0.1:$http");
    return serve($operator, @first, @options);
}

sub serve {
    my ($operator, @options) = @_;
    return serve_by_acme($operator, undef, @options);
}

# Names and issuer of what a client is shown.
sub shown {
    my $socket = Howdah::Test::Tls::connect_to($_[0] // $tls) or return 'nothing';
    my @names  = $socket->peer_certificate('subjectAltNames');
    return join(' ', sort grep { !/^\d+\z/ } @names) . ' by ' . $socket->peer_certificate('issuer');
}

sub file { my $operator = shift; return (glob $operator->dir . '/acme/*/*.pem')[0] }
sub serial { return (run_command(qw(openssl x509 -noout -serial -in), file(shift)))[1] }

my ($pebble, $operator) = (undef, Howdah::Test::Operator->new);

for (['tls-alpn-01', 'a.example,b.example'], ['http-01', 'c.example']) {
    my ($challenge, $names) = @$_;
    subtest "a first certificate by $challenge, under confinement, and with nonces refused" => sub {
        $operator = Howdah::Test::Operator->new;
        $pebble   = Howdah::Test::Pebble->start(tls => $tls, http => $http, env => {PEBBLE_WFE_NONCEREJECT => 20});
        my @options = ('--acme', $names, '--acme-challenge', $challenge, '--acme-email', 'op@a.example');
        my $server  = start($operator, $pebble->options, @options);
        like $server->log, qr/there is no certificate yet: clients get one of our own making/, 'a stand-in at first';
        my $wanted = join(' ', split /,/, $names) . ' by ';
        ok $server->wait_until(sub { shown() =~ /^\Q$wanted\E.*Pebble/ }, 60), 'then one from the authority'
            or diag shown(), $server->log, $pebble->log;
        my ($row) = @{$operator->status->{tls}{certificates}};
        is_deeply [sort @{$row->{names}}], [split /,/, $names], 'the status has its names';
        cmp_ok $row->{days}, '>', 80, 'and its days';
        is $row->{trouble}, undef, 'and no trouble';
        is + (stat file($operator))[2] & oct 777, oct 600, 'its file is for nobody else';
        my ($seccomp) = do {
            open my $in, '<', "/proc/${\$server->pid}/status" or die $!;
            grep { /^Seccomp:/ } <$in>;
        };
        is $seccomp, "Seccomp:\t2\n", 'the front is confined';
        my ($kept, $issued) = (serial($operator), $pebble->issued);
        is $server->stop, 0;
        $server = start($operator, $pebble->options, @options);
        like shown(), qr/^\Q$wanted\E.*Pebble/, 'the next server has it at once';
        is + ($operator->ask('upgrade'))[0], 0, 'and so has one that replaces it';
        like shown(), qr/^\Q$wanted\E.*Pebble/;
        is serial($operator), $kept, 'it was not ordered again';
        is $pebble->issued, $issued;
    };
}

subtest 'a certificate is renewed when half of a short life is over' => sub {
    $operator = Howdah::Test::Operator->new;
    $pebble   = Howdah::Test::Pebble->start(tls => $tls, http => $http, valid => 45);
    my $server = start($operator, $pebble->options, '--acme', 'd.example');
    ok $server->wait_until(sub { shown() =~ /Pebble/ }, 60), 'the first';
    my $first = serial($operator);
    ok $server->wait_until(sub { serial($operator) ne $first }, 90), 'the second' or diag $server->log;
    ok !$server->wait_until(sub { $pebble->issued > 4 }, 2), 'and not one after the other';
};

subtest 'two servers with one directory have one certificate' => sub {
    $operator = Howdah::Test::Operator->new;
    $pebble   = Howdah::Test::Pebble->start(tls => $tls, http => $http);
    my @options = ($pebble->options, '--acme', 'g.example');
    my $server  = start($operator, @options);
    my $other   = Howdah::Test::Operator->new;
    symlink $operator->dir . '/acme', $other->dir . '/acme' or die $!;
    my $beside = serve($other, @options, '-l', "tls:127.0.0.1:$nobody");
    ok $server->wait_until(sub { shown($_) =~ /Pebble/ }, 60), "at port $_" for $tls, $nobody;
    is $pebble->issued, 1, 'which was issued once' or diag $server->log, $beside->log;
};

subtest 'an account that the authority does not take is named with the way out' => sub {
    $operator = Howdah::Test::Operator->new;
    $pebble   = Howdah::Test::Pebble->start(tls => $tls, http => $http);
    my @options = ($pebble->options, '--acme', 'm.example');
    my $server  = start($operator, @options);
    ok $server->wait_until(sub { shown() =~ /Pebble/ }, 60), 'there is one' or diag $server->log;
    is $server->stop, 0;
    my ($account) = glob $operator->dir . '/acme/*/account.json';
    my ($status, $key) = run_command(qw(openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256));
    is $status, 0;
    ($key = join '', grep { !/-/ } split /\n/, $key) =~ tr{+/=}{-_}d;
    my $known = do { local (@ARGV, $/) = $account; JSON::PP::decode_json(<>) };
    open my $out, '>', $account or die $!;
    print {$out} JSON::PP::encode_json({%$known, key_pkcs8 => $key});
    close $out or die $!;
    unlink file($operator) or die $!;
    $server = start($operator, @options);
    ok $server->wait_for_log(
        qr/no certificate for m\.example: the authority takes no order of the account in \Q$account\E: .*remove the file/
        ),
        'another key than that of the account'
        or diag $server->log;
};

subtest 'servers with one directory and other names have a certificate each' => sub {
    $operator = Howdah::Test::Operator->new;
    $pebble   = Howdah::Test::Pebble->start(tls => $tls, http => $http);
    my $server = start($operator, $pebble->options, '--acme', 'i.example,j.example');
    ok $server->wait_until(sub { shown() =~ /^i\.example j\.example by .*Pebble/ }, 60), 'the first'
        or diag $server->log;
    my $other = Howdah::Test::Operator->new;
    symlink $operator->dir . '/acme', $other->dir . '/acme' or die $!;
    my $beside = serve($other, $pebble->options, '--acme', 'k.example', '-l', "tls:127.0.0.1:$nobody");
    like shown($nobody), qr/stand-in\.invalid/, 'whose certificate is none of another one';
    my @files = glob $operator->dir . '/acme/*/*.pem';
    is_deeply [map { m{([^/]+)\z} } @files], ['i.example+j.example.pem', 'k.example.pem'], 'two files';
    is $beside->stop, 0;
    is $server->stop, 0;
    my ($issued, @unproven) = ($pebble->issued, '--acme', 'i.example,l.example', '--acme-challenge', 'http-01');
    $server = serve($operator, $pebble->options, @unproven, '-l', "tls:127.0.0.1:$tls");
    like shown(), qr/^i\.example j\.example by .*Pebble/, 'with another name, the one from before serves';
    ok $server->wait_for_log(qr/no certificate for i\.example l\.example/, 60), 'while that name cannot be proven'
        or diag $server->log;
    is $pebble->issued, $issued;
};

subtest 'what the authority has found in the place of a proof is told, and tried again later' => sub {
    $operator = Howdah::Test::Operator->new;
    $pebble   = Howdah::Test::Pebble->start(tls => $nobody, http => $nobody);
    my $server = start($operator, $pebble->options, '--acme', 'e.example');
    ok $server->wait_for_log(
        qr/no certificate for e\.example: e\.example is not proven to be ours: .*next try is in 1\d s/),
        'the log says it'
        or diag $server->log;
    like $operator->status->{tls}{certificates}[0]{trouble}, qr/is not proven/, 'the status, too';
    cmp_ok $operator->status->{tls}{certificates}[0]{days}, '<', 14, 'nor does the stand-in look like a good one there';
    like + ($operator->ask('status'))[1], qr/^certificate e\.example .*is not proven/m, 'also for people';
    ok $server->wait_for_log(qr/next try is in 4\d s/, 60), 'the second wait is longer';
    like shown(), qr/stand-in\.invalid/, 'meanwhile it serves';
    my $alpn = sub { Howdah::Test::Tls::connect_to($tls, SSL_hostname => 'e.example', SSL_alpn_protocols => [@_]) };
    ok !$alpn->('acme-tls/1'), 'who looks for a proof that is not asked for is shown nothing';
    is $alpn->('acme-tls/1', 'http/1.1')->alpn_selected, 'http/1.1', 'who speaks HTTP is no authority';
    is(Howdah::Test::Client->ask($http, "GET / HTTP/1.1\r\nHost: e.example\r\n\r\n")->{status}, 301, 'and redirects');
};

subtest 'what an authority issues takes no place that it is not fit for' => sub {
    my $other = Howdah::Test::Tls->new(names => ['another.example']);
    my $chain = do { local (@ARGV, $/) = $other->cert; <> };
    for (
        ['<html>', qr/has issued what cannot be used.*no PEM/],
        [$chain, qr/has issued what cannot be used.*does not belong/]
        )
    {
        my ($issued, $why) = @$_;
        $operator = Howdah::Test::Operator->new;
        my $answer = sprintf "HTTP/1.1 200 OK\r\nContent-Length: %d\r\nReplay-Nonce: a\r\n\r\n%s", length $issued,
            $issued;
        my $authority = Howdah::Test::Authority->start(names => ['n.example'], instead => {chain => $answer});
        my $server    = start($operator, $authority->options, '--acme', 'n.example');
        ok $server->wait_for_log(qr/no certificate for n\.example: .*$why/, 60), 'the log says it' or diag $server->log;
        is $authority->asked('chain'), 1, 'it was issued';
        like shown(), qr/stand-in\.invalid/, 'what there was serves';
        is $server->stop, 0;
        $server = start($operator, $authority->options, '--acme', 'n.example');
        unlike $server->log, qr/is no PEM|does not belong|own making/, 'and is in its place still';
    }
};

subtest 'an authority may answer so much, and what it keeps us waiting for is told' => sub {
    my $endless = sub {
        my $client = shift;
        print {$client} "HTTP/1.1 200 OK\r\n\r\n";
        1 while print {$client} ' ' x 65_536;
    };
    my $many = sub {
        my $client = shift;
        print {$client} "HTTP/1.1 200 OK\r\n";
        1 while print {$client} 'X: ' . ('x' x 65_536) . "\r\n";
    };
    my $whole = sub {
        my ($status, $content) = @_;
        my $fields = "Content-Type: application/json\r\nContent-Length: " . length $content;
        return sub { print {shift()} "HTTP/1.1 $status x\r\n$fields\r\n\r\n$content" };
    };
    my %places = map { ("new$_" => 'https://localhost/') } qw(Account Order);
    for (
        [$endless, qr/limit/],
        [$many, qr/too large/],
        [$whole->(200, JSON::PP::encode_json({%places, newNonce => ''})), qr{/dir does not answer as an authority}],
        [$whole->(503, '{"type": "urn:ietf:params:acme:error:serverInternal", "detail": "We rest"}'), qr/We rest/]
        )
    {
        my ($say, $why) = @$_;
        $operator = Howdah::Test::Operator->new;
        my $authority = Howdah::Test::Authority->start(names => ['o.example'], instead => {dir => $say});
        my $server    = start($operator, $authority->options, '--acme', 'o.example');
        ok $server->wait_for_log(qr/no certificate for o\.example: .*$why.*next try/, 30), 'the log says it'
            or diag $server->log;
        is $server->stop, 0, 'and the server is there still';
    }
    my $silent = sub { sleep 100 };
    $operator = Howdah::Test::Operator->new;
    my $authority = Howdah::Test::Authority->start(names => ['p.example'], instead => {account => $silent});
    my $server    = start($operator, $authority->options, '--acme', 'p.example');
    ok $server->wait_for_log(qr/no certificate for p\.example yet: waiting for an answer from .*account/, 30),
        'what it is that is waited for'
        or diag $server->log;
    like $operator->status->{tls}{certificates}[0]{trouble}, qr/waiting for an answer from/, 'the status, too';
    is $server->stop, 0, 'which keeps no server from its end';
};

subtest 'whoever has mended something need not wait, but for the authority' => sub {
    $operator = Howdah::Test::Operator->new;
    my $authority = Howdah::Test::Authority->start(
        names   => ['q.example'],
        instead => {account => "HTTP/1.1 500 x\r\nContent-Length: 0\r\n\r\n"}
    );
    my $beside = Howdah::Test::Tls->new;
    my $server = start($operator, $authority->options, '--acme', 'q.example', $beside->options);
    ok $server->wait_for_log(qr/next try is in 4\d s/, 60), 'a wait that is long' or diag $server->log;
    my $tries = $authority->asked('account');
    rename $beside->cert, $beside->cert . '.away' or die $!;
    my (undef, undef, $err) = $operator->ask('reload');
    like $err, qr/cannot read .*; another one is ordered now/,
        'a reload makes it short, also where another file is wrong';
    rename $beside->cert . '.away', $beside->cert or die $!;
    ok $server->wait_until(sub { $authority->asked('account') > $tries }, 10);
    ok $server->wait_for_log(qr/next try is in 1\d\d s/, 10), 'and it is the longer when that fails'
        or diag $server->log;
    like + ($operator->ask('reload'))[1], qr/another one is ordered in \d+ s/, 'the second time it helps less';
    is $server->stop, 0;

    my $later = "HTTP/1.1 429 x\r\nRetry-After: 1000\r\nContent-Length: 0\r\n\r\n";
    $operator  = Howdah::Test::Operator->new;
    $authority = Howdah::Test::Authority->start(names => ['r.example'], instead => {account => $later});
    $server    = start($operator, $authority->options, '--acme', 'r.example');
    ok $server->wait_for_log(qr/account answers 429.*next try is in 1[012]\d\d s/, 30), 'Retry-After counts'
        or diag $server->log;
    like + ($operator->ask('reload'))[1], qr/another one is ordered in (?:1000|99\d) s/, 'then, too';
};

subtest 'an authority that is not believed' => sub {
    $operator = Howdah::Test::Operator->new;
    $pebble   = Howdah::Test::Pebble->start(tls => $tls, http => $http);
    my $another = Howdah::Test::Tls->new(ca => 1);
    my $server  = start($operator, $pebble->options($another), '--acme', 'f.example');
    ok $server->wait_for_log(qr/no certificate for f\.example: .*(?:certificate|Issuer)/i), 'is not asked'
        or diag $server->log;
    is $server->stop, 0, 'an order under way keeps no server from its end';
};

subtest 'a file that does not tell the authority from others is refused at the start' => sub {
    for (['/nonexistent', qr/No such file/], ['/dev/null', qr/no items/]) {
        my ($file, $why) = @$_;
        my @options =
            ($operator->options, '--acme', 'h.example', '--acme-dir', $operator->dir . '/acme', '--acme-ca', $file);
        my ($status, undef, $said) = run_howdah('-l', "tls:127.0.0.1:$tls", @options, 'examples/hello.psgi');
        is $status, 1, $file;
        like $said, qr/cannot tell the authority by \Q$file\E: .*$why.*: --acme-ca names a file/;
    }
};

done_testing;
