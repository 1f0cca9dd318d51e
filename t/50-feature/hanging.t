# What hangs is given up after its time: a worker that has not come so far as to be ready, a hook at its end.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Operator;
use Howdah::Test::Server;
use Test::More;
use Time::HiRes qw(sleep time);

sub write_file {
    my ($file, $text) = @_;
    open my $out, '>', $file or die $!;
    print {$out} $text;
    return close $out;
}

my $HANGS = <<'PSGI';
use Howdah;
my $flag = $ENV{FLAG};
Howdah->after_fork(sub { sleep 1 while -e $flag });
sub { [200, [], ["$$"]] };
PSGI

for my $timeout ('60s', '0') {
    subtest "a stop while a worker hangs in after_fork, --graceful-timeout $timeout" => sub {
        my $operator = Howdah::Test::Operator->new;
        my $flag     = $operator->dir . '/flag';
        my $server   = Howdah::Test::Server->start(
            app     => $HANGS,
            env     => {FLAG => $flag},
            options => ['--workers', 2, '--graceful-timeout', $timeout, $operator->options],
        );
        write_file($flag, '');
        kill KILL => ($server->workers)[0];
        ok $server->wait_until(sub {
            grep { $_->{state} eq 'starting' && $_->{pid} } @{$operator->status->{workers}};
            }),
            'it hangs';
        my $start = time;
        is $server->stop, 0;
        cmp_ok time - $start, '<', 20, 'it is not waited for';
    };
}

subtest '--graceful-timeout is for all of a stop' => sub {
    my $app = <<'PSGI';
use Howdah;
Howdah->worker_exit(sub { sleep 60 });
sub { select undef, undef, undef, $1 if $_[0]{PATH_INFO} =~ m{^/slow/([\d.]+)}; [200, [], ["$$"]] };
PSGI
    my $server = Howdah::Test::Server->start(app => $app, options => ['--workers', 1, '--graceful-timeout', '10s']);
    my $client = Howdah::Test::Client->new($server);
    $client->write("GET /slow/6 HTTP/1.1\r\nHost: x\r\n\r\n");
    sleep 0.5;
    my $start = time;
    $server->signal('TERM');
    is $client->response->{status}, 200, 'a request takes most of it';
    is $server->wait_for_exit, 0;
    cmp_ok time - $start, '<', 15, 'a hook at the end has the rest';
};

done_testing;
