# When an authority for certificates wants to be asked again: what it says counts, within bounds, whatever it says.
use strict;
use warnings;
use lib 't/lib';

use Fcntl ();
use Howdah::Test::Acme qw(serve_by_acme);
use Howdah::Test::Authority;
use Howdah::Test::Operator;
use Howdah::Test::Tls;
use POSIX ();
use Test::More;

plan skip_all => 'needs IO::Socket::SSL and openssl' if !Howdah::Test::Tls->is_installed;

# An answer with a Retry-After.
sub answer {
    my ($status, $later, $content) = @_;
    my $fields = join "\r\n", "Retry-After: $later", 'Replay-Nonce: a', 'Content-Length: ' . length $content;
    return "HTTP/1.1 $status x\r\n$fields\r\n\r\n$content";
}

my $date = POSIX::strftime('%a, %d %b %Y %H:%M:%S GMT', gmtime time + 1000);
my $slow = '{"status": "processing", "authorizations": [], "finalize": "https://localhost/"}';

my $operator;

sub start {
    my $authority = shift;
    $operator = Howdah::Test::Operator->new;
    return serve_by_acme($operator, '127.0.0.1:0', '--acme', 's.example', $authority->options);
}

for (
    ['a date', account     => answer(503, $date, ''), qr/(?:9|1[012])\d\d s/],
    ['nonsense', account   => answer(503, 'later', ''), qr/1\d s/],
    ['for ever', 'order-1' => answer(200, '18446744073709551615', $slow), qr/(?:8|9|10)\d{4} s/]
    )
{
    my ($how, $where, $answer, $wait) = @$_;
    my $authority = Howdah::Test::Authority->start(names => ['s.example'], instead => {$where => $answer});
    my $server    = start($authority);
    ok $server->wait_for_log(qr/no certificate for s\.example: .*next try is in $wait/, 30), $how
        or diag $server->log;
    is $server->stop, 0, 'and the server goes on';
}

subtest 'the turn of another process is no reason to wait less' => sub {
    my $authority = Howdah::Test::Authority->start(names => ['s.example'], instead => {account => answer(500, '', '')});
    my $server    = start($authority);
    my $waits     = sub { return $server->log =~ /next try is in (\d+) s/g };
    ok $server->wait_for_log(qr/next try is in 1\d s/), 'the first failure' or diag $server->log;
    my ($lock) = glob $operator->dir . '/acme/*/lock';
    open my $held, '>>', $lock or die $!;
    flock $held, Fcntl::LOCK_EX() or die $!;
    like + ($operator->ask('reload'))[1], qr/another one is ordered now/, 'another try';
    sleep 1;
    close $held or die $!;
    ok $server->wait_until(sub { (my @all = $waits->()) == 2 }), 'fails, too' or diag $server->log;
    like + ($waits->())[1], qr/^4\d\z/, 'and the wait is longer';
};

done_testing;
