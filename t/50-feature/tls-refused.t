# What is wrong with the files and options of TLS is told at the start, with the file, the trouble and the way out.
use strict;
use warnings;
use lib 't/lib';

use File::Temp ();
use Howdah::Test::Command qw(run_command run_howdah);
use Howdah::Test::File qw(write_file);
use Howdah::Test::Operator;
use Howdah::Test::Server;
use Howdah::Test::Tls;
use POSIX ();
use Test::More;

plan skip_all => 'needs IO::Socket::SSL and openssl' if !Howdah::Test::Tls->is_installed;

my $dir = File::Temp->newdir;
my ($good, $other) = map { Howdah::Test::Tls->new } 1 .. 2;
my $empty = write_file("$dir/empty", '');
my $text  = write_file("$dir/text", 'hello');

sub said {
    my ($status, $out, $err) = run_howdah('-l', '127.0.0.1:0', @_, '-e', 'sub {}');
    return $status ? $err : "started: $out";
}

for (
    [
        'a key of another', $good->cert, $other->key,
        qr/does not belong to the certificate in .*: give each --tls-cert its own/
    ],
    ['nothing', $empty, $good->key, qr{$dir/empty is empty: write the certificate there}],
    ['no key', $good->cert, $empty, qr{--tls-key: $dir/empty is empty: write the private key there}],
    ['no PEM', $good->cert, $text, qr{$dir/text is no PEM file: .* convert it}],
    [
        'a missing file', "$dir/none", $good->key,
        qr{--tls-cert: cannot read $dir/none: No such file .*is the path right}
    ],
    ['the wrong kind', $good->key, $good->key, qr{has a private key and no certificate: name the file}],
    ['the other way', $good->cert, $good->cert, qr{has a certificate and no private key: name the file}],
    )
{
    my ($what, $cert, $key, $expected) = @$_;
    like said('--tls-cert', $cert, '--tls-key', $key), $expected, $what;
}

SKIP: {
    skip 'root reads everything', 1 if !$>;
    chmod 0, $other->key;
    like said('--tls-cert', $other->cert, '--tls-key', $other->key), qr/cannot read .*: let that user read it/,
        'not readable';
}

for (
    [['-l', 'tls:127.0.0.1:0'], qr/--listen tls:127.0.0.1:0 needs a certificate/],
    [['--redirect-to-https', ':0'], qr/--redirect-to-https needs a certificate: name one by --tls-cert/],
    [['--hsts'], qr/--hsts needs a certificate/],
    [['--tls-client-ca', $good->cert], qr/--tls-client-ca needs a certificate/],
    [[$good->options, '--tls-key', $other->key], qr/there are 1 --tls-cert and 2 --tls-key/],
    [[$good->options, '--redirect-to-https', 'tls::0'], qr/is for clients without TLS: leave tls: out/],
    [[$good->options, '--tls-min', '1.1'], qr/possible values: 1\.2, 1\.3.\s+tip: no older TLS is spoken/],
    [[$good->options, '--tls-client-ca', $empty], qr{--tls-client-ca: $dir/empty is empty}],
    )
{
    my ($options, $expected) = @$_;
    like said(@$options), $expected, "@$options";
}

# As `openssl x509 -req` made them where nobody asked for extensions, before OpenSSL 3.4.
sub of_version_1 {
    my ($key, $request, $cert, $name) = ($good->key, "$dir/v1.csr", "$dir/v1.pem", @_);
    my @subject  = ('-key', $key, '-subj', "/CN=$name");
    my @plain    = ('-config', write_file("$dir/plain.cnf", "[req]\ndistinguished_name = none\n[none]\n"));
    my ($failed) = run_command(qw(openssl req -x509 -x509v1 -days 30), @plain, @subject, '-out', $cert);
    if ($failed) {
        run_command(qw(openssl req -new), @subject, '-out', $request);
        ($failed) = run_command(qw(openssl x509 -req -days 30 -signkey), $key, '-in', $request, '-out', $cert);
    }
    is $failed, 0, 'made';
    return ($cert, $key);
}

subtest 'a certificate of version 1 is served, and a wrong key is told' => sub {
    my ($cert, $key) = of_version_1('old.example');
    like + (run_command(qw(openssl x509 -noout -text -in), $cert))[1], qr/Version: 1 /, 'of version 1';
    like said('--tls-cert', $cert, '--tls-key', $other->key), qr/does not belong to the certificate in \Q$cert/,
        'the key of another';
    my $server = Howdah::Test::Server->start(
        app     => 'sub { [200, [], ["hello"]] }',
        listen  => undef,
        options => ['--workers', 1, '-l', 'tls:127.0.0.1:0', '--tls-cert', $cert, '--tls-key', $key],
    );
    my $socket = Howdah::Test::Tls::connect_to($server->port);
    is $socket && $socket->peer_certificate('commonName'), 'old.example', 'served';
};

subtest 'a name of two lines is one in the status' => sub {
    my ($cert, $key) = of_version_1("two\nlines");
    my $operator = Howdah::Test::Operator->new;
    my $server   = Howdah::Test::Server->start(
        app     => 'sub { [200, [], ["hello"]] }',
        options => ['--workers', 1, '--tls-cert', $cert, '--tls-key', $key, $operator->options],
    );
    like + ($operator->ask('status'))[1], qr/^certificate two\\0alines, /m;
    is $operator->status->{tls}{certificates}[0]{names}[0], 'two\0alines', 'nor in the JSON';
};

subtest 'a root certificate that is read again and again is no pipe' => sub {
    my $fifo = "$dir/fifo";
    POSIX::mkfifo($fifo, 0600) or die $!;
    my @acme = ('--acme', 'a.example', '--acme-dir', "$dir", '--acme-ca', $fifo);
    like said(@acme), qr/cannot tell the authority by \Q$fifo\E: it is a pipe/;
};

subtest 'which listeners speak TLS' => sub {
    my $both = join '', map {
        do { local (@ARGV, $/) = $_; <> }
    } $good->cert, $good->key;
    my $file = write_file("$dir/both", $both);
    for (
        [['127.0.0.1:0', "$dir/a.sock"], [qr/^https:/, qr/^unix:/], 'all on TCP'],
        [['127.0.0.1:0', 'tls:127.0.0.1:0'], [qr/^http:/, qr/^https:/], 'those that are said to'],
        [['127.0.0.1:0,https://127.0.0.1:0'], [qr/^http:/, qr/^https:/], 'by a URL'],
        [['127.0.0.1:0', '127.0.0.1:0:ssl'], [qr/^http:/, qr/^https:/], "by Starman's word"],
        )
    {
        my ($listen, $expected, $what) = @$_;
        my $server = Howdah::Test::Server->start(
            app     => 'sub { [200, [], ["hello"]] }',
            listen  => undef,
            options => ['--workers', 1, (map { ('-l', $_) } @$listen), '--tls-cert', $file]
        );
        my @urls = $server->urls;
        is_deeply [map { $urls[$_] =~ $expected->[$_] ? 1 : $urls[$_] } 0 .. $#$expected], [(1) x @$expected], $what;
    }
};

done_testing;
