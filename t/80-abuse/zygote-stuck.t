# Zygotes that have been stopped, and code that hangs while it is loaded: the ends of workers are noticed, requests get
# their answers, the server ends in time, and status and readiness say what is wrong.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Operator;
use Howdah::Test::Server;
use Test::More;
use Time::HiRes qw(time);

my $APP = <<'PSGI';
sub { kill KILL => $$ if $_[0]{PATH_INFO} eq '/die'; [200, [], [$$]] };
PSGI
my @READY = ('--ready-path', '/ready');

sub ask {
    my ($server, $path) = @_;
    return Howdah::Test::Client->ask($server, "GET $path HTTP/1.0\r\n\r\n");
}

sub write_app {
    my ($file, $text) = @_;
    open my $out, '>', $file or die $!;
    print {$out} $text;
    return close $out;
}

subtest 'a stopped zygote' => sub {
    my $operator = Howdah::Test::Operator->new;
    my @options  = ('--workers', 2, '--graceful-timeout', 60, @READY, $operator->options);
    my $server   = Howdah::Test::Server->start(app => $APP, options => \@options);
    my ($zygote) = $server->processes('zygote');
    my @workers  = $server->workers;
    kill STOP => $zygote;
    for my $left (1, 0) {
        my $start = time;
        is ask($server, '/die')->{status}, 502, 'a request whose worker dies is answered';
        cmp_ok time - $start, '<', 4, '... soon';
    }
    ok $server->wait_until(sub { ($operator->status->{trouble} // '') =~ /^zygote $zygote was told .* been stopped$/ }),
        'the status says what is wrong';
    is_deeply [@{ask($server, '/ready')}{qw(status body)}], [503, "failing\n"],
        '... and readiness that it is';
    kill CONT => $zygote;
    ok $server->wait_until(sub { $server->workers == 2 && !defined $operator->status->{trouble} }), 'it goes on';
    my @new = sort $server->workers;
    is scalar(
        grep {
            my $pid = $_;
            grep { $_ == $pid } @workers
        } @new
        ),
        0, 'with new workers';
    is ask($server, '/')->{status}, 200;
    is_deeply [sort $server->workers], \@new, '... whom it does not take for the dead';

    kill STOP => $zygote;
    is + ($operator->ask('reload'))[0], 0, 'a reload does not need it';
    ok $server->wait_until(sub { !kill 0, $zygote }), '... and ends it';
    ($zygote) = $server->processes('zygote');

    kill STOP => $zygote;
    is + ($operator->ask(workers => 3))[0], 0, 'another worker is wanted, which it does not fork';
    is + ($operator->ask('reload'))[0], 0, '... and a reload needs neither';
    ok $server->wait_until(sub { !kill 0, $zygote }), '... and ends it';
    ok $server->wait_until(sub { @{$operator->status->{workers}{list}} == 3 }), '... and what it was to fork';
    ok !defined $operator->status->{trouble}, '... and the trouble is over';
    ($zygote) = $server->processes('zygote');

    kill STOP => $zygote;
    ask($server, '/die');
    my $start = time;
    is $server->stop, 0, 'a stop';
    cmp_ok time - $start, '<', 20, '... does not wait for one that is stopped';
    ok !kill(0, $zygote), '... nor leaves it behind';
};

subtest 'the zygote is dead, and the code that is there now hangs' => sub {
    my $operator = Howdah::Test::Operator->new;
    my $file     = $operator->dir . '/app.psgi';
    write_app($file, $APP);
    my $server = Howdah::Test::Server->start(file => $file, options => ['--workers', 2, @READY, $operator->options]);
    is_deeply [@{ask($server, '/ready')}{qw(status body)}], [200, "ready\n"];
    write_app($file, 'sleep 1 while 1;');
    kill KILL => $server->processes('zygote');
    my $told = qr/^the zygote is dead, generation 2 has been loading the application for \d+ s$/;
    ok $server->wait_until(sub { ($operator->status->{trouble} // '') =~ $told }), 'the status says so';
    is_deeply [@{ask($server, '/ready')}{qw(status body)}], [200, "ready\nin trouble: see howdah status\n"],
        'readiness, too, as long as workers are left';
    kill KILL => $server->workers;
    ok $server->wait_until(sub { ask($server, '/ready')->{status} == 503 }), 'without any the server is not ready';
    is ask($server, '/ready')->{body}, "failing\n";
    write_app($file, $APP);
    is + ($operator->ask('reload'))[0], 0, 'a reload with better code helps';
    is ask($server, '/ready')->{body}, "ready\n";
};

done_testing;
