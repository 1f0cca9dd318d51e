# A server that is started over and over asks the authority for certificates no more often than one that stays; and what has changed
# since the account was opened, the authority hears.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Acme qw(serve_by_acme);
use Howdah::Test::Authority;
use Howdah::Test::Operator;
use Howdah::Test::Tls;
use Test::More;

plan skip_all => 'needs IO::Socket::SSL and openssl' if !Howdah::Test::Tls->is_installed;

my $refusal =
    "HTTP/1.1 400 x\r\nReplay-Nonce: a\r\nContent-Type: application/problem+json\r\nContent-Length: 2\r\n\r\n{}";
my $told  = 'the last try did not go well, before this process was started';
my $again = again($told);
my ($operator, $authority);

sub again { return qr/no certificate for a\.example yet: $_[0]; the next try is in (\d+) s, or at a reload/ }

sub authority {
    $operator  = Howdah::Test::Operator->new;
    $authority = Howdah::Test::Authority->start(names => ['a.example'], @_);
    return;
}

sub start { return serve_by_acme($operator, '127.0.0.1:0', '--acme', 'a.example', $authority->options, @_) }

subtest 'a start does not try again at once what has failed' => sub {
    authority(instead => {order => $refusal});
    my $server = start();
    ok $server->wait_for_log(qr/no certificate for a\.example: .*next try is in 1\d s/), 'the first fails'
        or diag $server->log;
    is $server->stop, 0;
    my $asked = $authority->asked('order');
    for my $round (1, 2) {
        $server = start();
        ok $server->wait_for_log($again), 'it is told' or diag $server->log;
        like + ($operator->ask('status'))[1], qr/the last try did not go well/, 'also by the status';
        last if $round == 2;
        is $server->stop, 0;
    }
    is $authority->asked('order'), $asked, 'and nothing is ordered';
    like + ($operator->ask('reload'))[1], qr/another one is ordered now/, 'unless somebody asks for it';
    ok $server->wait_for_log(qr/no certificate for a\.example: .*next try is in [45]\d s/), 'and the wait grows'
        or diag $server->log;
    is $authority->asked('order'), $asked + 1;
};

subtest 'nor what was issued and is to be renewed already, as by a clock that is wrong' => sub {
    authority(days => 0);
    for (1 .. 3) {
        my $server = start();
        ok $server->wait_for_log(qr/next try is in \d{5,6} s/), 'the next try is tomorrow' or diag $server->log;
        is $server->stop, 0;
    }
    is $authority->asked('order'), 1, 'and it is ordered once';
};

subtest 'a process that dies while it orders is a failure, and told for what it was' => sub {
    authority(instead => {order => sub { sleep 30 }});
    my $server = start();
    ok $server->wait_until(sub { $authority->asked('order') }), 'an order is under way';
    kill KILL => $server->pid;
    ok $operator->wait_for_end($server->pid);
    $server = start();
    my $short = 'an order of the process before this one was cut short, or is still under way';
    ok $server->wait_for_log(again($short)), 'which counts' or diag $server->log;
    is $authority->asked('order'), 1;
};

subtest 'of too many orders the account is not to blame' => sub {
    my $type    = 'urn:ietf:params:acme:error:rateLimited';
    my $problem = qq({"type":"$type","detail":"too many certificates","status":429});
    my $fields  = join "\r\n", 'Replay-Nonce: a', 'Content-Type: application/problem+json',
        'Content-Length: ' . length $problem;
    authority(instead => {order => "HTTP/1.1 429 x\r\n$fields\r\n\r\n$problem"});
    my $server = start();
    ok $server->wait_for_log(
        qr/no certificate for a\.example: the authority takes no order now: .*too many certificates/),
        'it is told'
        or diag $server->log;
    unlike $server->log, qr/remove the file/, 'and nothing is to be removed';
};

subtest 'another --acme-email reaches the account that there is' => sub {
    authority();
    my @mail = map { "$_\@a.example" } qw(first second);
    for my $case ([0, 0], [1, 1], [1, 1], [0, 2]) {
        my ($which, $told) = @$case;
        my $server = start('--acme-email', $mail[$which]);
        ok $server->wait_until(sub { $authority->asked('account-1') >= $told && $authority->asked('chain') }),
            $mail[$which]
            or diag $server->log;
        is_deeply $authority->said($told ? 'account-1' : 'account')->{contact}, ["mailto:$mail[$which]"], 'is told';
        ok $server->wait_for_log(qr/there is a certificate/) if !$told;
        is $server->stop, 0;
        is $authority->asked('account-1'), $told, 'once';
    }
};

subtest 'one that the authority does not take is told long before it matters' => sub {
    authority(instead => {'account-1' => $refusal});
    my $server = start();
    ok $server->wait_for_log(qr/there is a certificate/);
    is $server->stop, 0;
    $server = start('--acme-email', 'nobody@a.example');
    ok $server->wait_for_log(qr/WARN .*the authority does not take nobody\@a\.example as --acme-email: /)
        or diag $server->log;
};

done_testing;
