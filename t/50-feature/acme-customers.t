# An authority that has customers (external account binding, RFC 8555 7.3.4): who has its key has an account, others hear what
# to do.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Acme qw(serve_by_acme);
use Howdah::Test::Command qw(run_howdah);
use Howdah::Test::File qw(read_if_any write_file);
use Howdah::Test::Operator;
use Howdah::Test::Pebble;
use Howdah::Test::Ports qw(free_port);
use Howdah::Test::Tls;
use Test::More;

plan skip_all => 'needs IO::Socket::SSL and openssl' if !Howdah::Test::Tls->is_installed;
plan skip_all => 'needs pebble (Debian has a package)' if !Howdah::Test::Pebble->is_installed;

my $port   = free_port();
my $secret = 'zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W';
my $pebble = Howdah::Test::Pebble->start(tls => $port, keys => {'kid-1' => $secret});
my $operator;

sub start {
    $operator = Howdah::Test::Operator->new;
    return serve_by_acme($operator, "127.0.0.1:$port", '--acme', 'a.example', $pebble->options, @_);
}

sub shown {
    my $socket = Howdah::Test::Tls::connect_to($port) or return 'nothing';
    return $socket->peer_certificate('issuer');
}

subtest 'who is a customer' => sub {
    my $dir    = Howdah::Test::Operator->new;
    my $file   = write_file($dir->dir . '/key', $secret);
    my $server = start('--acme-eab-kid', 'kid-1', '--acme-eab-key-file', $file);
    ok $server->wait_until(sub { shown() =~ /Pebble/ }, 60), 'has a certificate' or diag $server->log, $pebble->log;
    unlike $server->log . read_if_any('/proc/' . $server->pid . '/cmdline'), qr/\Q$secret\E/, 'nobody is told the key';
};

subtest 'who is none' => sub {
    my $server = start();
    ok $server->wait_for_log(
        qr/no certificate for a\.example: cannot open an account: .*name what it has given you by --acme-eab-kid/),
        'hears what to do'
        or diag $server->log;
    is $server->stop, 0;
    my $dir  = Howdah::Test::Operator->new;
    my $file = write_file($dir->dir . '/key', 'another' . $secret);
    $server = start('--acme-eab-kid', 'kid-1', '--acme-eab-key-file', $file);
    ok $server->wait_for_log(qr/no certificate for a\.example: cannot open an account: .*next try/),
        'hears it from the authority'
        or diag $server->log;
};

subtest 'what is no key is refused at the start, and before' => sub {
    my $dir = Howdah::Test::Operator->new;
    for (
        [write_file($dir->dir . '/nokey', 'a key?') => qr{\S+nokey has no key in base64: write what}],
        ['/nonexistent'                             => qr{cannot read /nonexistent: No such file}]
        )
    {
        my ($file, $why) = @$_;
        my @acme = ('--acme', 'a.example', '--acme-dir', $dir->dir . '/acme', '--acme-eab-kid', 'kid-1');
        for my $command ('serve', 'check') {
            my ($status, undef, $said) =
                run_howdah($command, '-l', "tls:127.0.0.1:$port", @acme, '--acme-eab-key-file', $file, '-e', 'sub {}');
            is $status, 1, $command;
            like $said, qr/^howdah: --acme-eab-key-file: $why/m;
        }
    }
};

done_testing;
