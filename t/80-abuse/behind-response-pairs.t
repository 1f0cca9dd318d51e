# Code that goes on behind its response without end, each way there is, beside whatever replaces or ends its worker: the worker
# is ended after --request-timeout, and nothing waits for it longer than that.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Operator;
use Howdah::Test::Server;
use Test::More;

my $app = <<'PSGI';
sub goes_on { select undef, undef, undef, 0.05 for 1 .. 20 * 600 }
sub Closes::getline { return shift->{lines}-- > 0 ? $$ : undef }
sub Closes::close { goes_on() }
sub Destroyed::DESTROY { goes_on() }
my %way = (
    'psgix.cleanup' => sub { push @{$_[0]{'psgix.cleanup.handlers'}}, \&goes_on; return [200, [], [$$]] },
    close => sub { return [200, [], bless {lines => 1}, 'Closes'] },
    destructor => sub { $_[0]{destroyed} = bless {}, 'Destroyed'; return [200, [], [$$]] },
);
sub {
    my $env = shift;
    my $way = $way{$env->{QUERY_STRING}} or return [200, [], [$$]];
    return $way->($env);
};
PSGI

my %beside = (
    reload => sub {
        my ($server, $operator) = @_;
        is + ($operator->ask('reload'))[0], 0, 'the reload works';
        return sub { return $server->stop };
    },
    upgrade => sub {
        my ($server, $operator) = @_;
        my $old = $operator->pid;
        is + ($operator->ask('upgrade'))[0], 0, 'the upgrade works';
        ok $operator->wait_for_end($old), 'the old process leaves';
        return sub { return ($operator->ask('stop'))[0] };
    },
    stop => sub {
        my ($server, $operator) = @_;
        return sub { return $server->stop };
    },
);

sub ask {
    my ($server, $way) = @_;
    return Howdah::Test::Client->ask($server, "GET /?$way HTTP/1.1\r\nHost: x\r\n\r\n")->{body};
}

for my $beside (sort keys %beside) {
    for my $way (qw(psgix.cleanup close destructor)) {
        subtest "$beside beside $way" => sub {
            my $operator = Howdah::Test::Operator->new;
            my $server   = Howdah::Test::Server->start(
                app     => $app,
                options => ['--workers', 2, '--request-timeout', '2s', $operator->options],
            );
            my $stuck = ask($server, $way);
            like $stuck, qr/^\d+$/, 'its client has its response';
            isnt ask($server, ''), $stuck, 'another worker serves meanwhile';
            my $stop = $beside{$beside}->($server, $operator);
            isnt ask($server, ''), $stuck, 'nobody waits' if $beside ne 'stop';
            ok $server->wait_until(sub { !kill 0, $stuck }), 'its worker is ended' if $beside ne 'stop';
            is $stop->(), 0, 'the server stops';
            ok !kill(0, $stuck), 'its worker has gone' if $beside eq 'stop';
            like $server->log, qr/no end within --request-timeout of what runs after a response/, 'after its time';
            unlike $server->log, qr/requests still run/, '... and not after that of the server';
        };
    }
}

done_testing;
