# --request-timeout under load: the client of a stuck request gets 504, the log the request and where in the Perl code its
# worker is, another worker takes the place, and nobody else notices.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Load;
use Howdah::Test::Operator;
use Howdah::Test::Server;
use Socket qw(SO_LINGER SOL_SOCKET);
use Test::More;
use Time::HiRes qw(time);

my $app = <<'PSGI';
my $load = do './t/apps/load.psgi' or die;
sub wait_for_lock {
    my $patience = shift;
    select undef, undef, undef, 0.05 for 1 .. 20 * $patience;    # the fourth line
}
sub deaf { local $SIG{USR2} = 'IGNORE'; wait_for_lock(@_) }
my %do = (
    '/stuck' => sub { wait_for_lock(600); [200, [], ['too late']] },
    '/deaf'  => sub { deaf(600); [200, [], ['too late']] },
    '/slow'  => sub {
        sub { my $writer = shift->([200, []]); for ('now ', 'and ', 'then') { $writer->write($_); wait_for_lock(1) } }
    },
);
sub { my $env = shift; my $do = $do{$env->{PATH_INFO}} // $load; $do->($env) };
PSGI

my @options = ('--workers', 3, '--request-timeout', '1500ms');
my $server  = Howdah::Test::Server->start(app => $app, options => \@options);
my @load    = map { Howdah::Test::Load->start($server, connections => 6, fresh => $_) } 0, 1;

sub ask { return Howdah::Test::Client->ask($server, "GET $_[0] HTTP/1.1\r\nHost: x\r\n\r\n") }

sub is_replaced {
    my ($path, @before) = @_;
    my $gone = $server->wait_until(sub {
        my $gone = grep { !kill 0, $_ } @before;
        $gone;
    });
    ok $gone, "$path: the worker is gone";
    return ok $server->wait_until(sub { $server->workers == 3 }), '... and replaced';
}

for my $path ('/stuck?id=7', '/deaf') {
    my @before   = $server->workers;
    my $since    = time;
    my $response = ask($path);
    is $response->{status}, 504, "$path: gateway timeout (RFC 9110 15.6.5)";
    cmp_ok time - $since, '>=', 1.4, '... not before its time';
    is_replaced($path, @before);
}
ok $server->wait_for_log(qr{no answer within --request-timeout: GET /stuck\?id=7 from 127\.0\.0\.1; answered 504}),
    'the log names the request'
    or diag $server->log;
ok $server->wait_for_log(
    qr/worker \d+ is here:\n.*: +at \S*app\.psgi line 4, in \S+::wait_for_lock\n(?:.*: +at \S*app\.psgi line .*\n){2}/),
    '... and where it was stuck'
    or diag $server->log;

is ask('/slow')->{body}, 'now and then', 'a response that has begun may take its time';
for my $result (map { $_->stop->finish } @load) {
    is_deeply $result->{problems}, [];
    is_deeply [keys %{$result->{status}}], [200], "$result->{requests} other requests";
}
is $server->stop, 0;

subtest 'what runs behind a response is bounded, too, and shown' => sub {
    my $code = <<'PSGI';
sub hang { select undef, undef, undef, 0.05 for 1 .. 20 * 600 }    # the first line
sub {
    my $env = shift;
    push @{$env->{'psgix.cleanup.handlers'}}, \&hang if $env->{PATH_INFO} eq '/behind';
    push @{$env->{'psgix.cleanup.handlers'}}, sub { select undef, undef, undef, 0.7 } if $env->{PATH_INFO} eq '/short';
    return [200, [], [$$]];
}
PSGI
    my $operator = Howdah::Test::Operator->new;
    my $behind   = Howdah::Test::Server->start(
        app     => $code,
        options => ['--workers', 2, '--request-timeout', '4s', $operator->options]
    );
    my $ask    = sub { return Howdah::Test::Client->ask($behind, "GET $_[0] HTTP/1.1\r\nHost: x\r\n\r\n")->{body} };
    my %stuck  = map { $ask->('/behind') => 1 } 1, 2;
    my $status = sub { ($operator->ask('status'))[1] };
    is keys %stuck, 2, 'both workers are behind their response';
    ok $behind->wait_until(sub { 2 == (() = $status->() =~ /^ +\d+ +\d+ +busy .* \(after the response\)$/mg) }, 3),
        '... which the status shows'
        or diag $status->();
    like + ($operator->ask('where'))[1], qr/^worker \d+, process \d+, generation 1: after its response$/m,
        '... and where'
        if $^O eq 'linux' && $> == 0;
    my $next = $ask->('/short');
    ok !$stuck{$next}, 'the next request is served by another';
    ok $behind->wait_until(sub {
        !grep { kill 0, $_ } keys %stuck;
        }),
        'and both are gone';
    ok $behind->wait_for_log(qr/no end within --request-timeout of what runs after a response/), 'the log says why'
        or diag $behind->log;
    ok $behind->wait_for_log(qr{worker \d+ is here:\n.*: +at \S*app\.psgi line 1, in \S+::hang\n}), '... and where'
        or diag $behind->log;
    ok $behind->wait_until(sub { $ask->('/') eq $next }), 'what comes to its end in time stays' or diag $behind->log;
    is $behind->stop, 0;
};

subtest 'a server that has no time itself takes none from its workers' => sub {
    my $paused = Howdah::Test::Server->start(app => <<'PSGI', options => ['--workers', 1, '--request-timeout', '4s']);
sub { select undef, undef, undef, 0.05 for 1 .. 20; [200, [], ["$$"]] }
PSGI
    my ($worker) = $paused->workers;
    my $client = Howdah::Test::Client->asking($paused, '/');
    select undef, undef, undef, 0.5;
    kill STOP => $paused->pid, $worker;
    sleep 6;
    kill CONT => $paused->pid, $worker;
    my $response = $client->response;
    is "$response->{status} $response->{body}", "200 $worker", 'as of docker pause, or a suspended machine';
    unlike $paused->log, qr/request-timeout/;
    is $paused->stop, 0;
};

# Each hangs where a comment says so, and has something to do after that.
my $HANGING = <<'PSGI';
package Stuck;
pipe our $reader, our $writer or die $!;
sub nap {
    sleep 60;    # nap
    return 1;
}
sub read_pipe {
    sysread $reader, my $byte, 1;    # sysread
    return 1;
}
sub wait_for_pipe {
    vec(my $bits = '', fileno $reader, 1) = 1;
    select $bits, undef, undef, 60;    # select
    return 1;
}
sub read_line {
    my $line = <$reader>;    # readline
    return 1;
}
sub spin {
    1 while 1;    # spin
    return 1;
}
sub backtrack {
    my $found = ('a' x 60) =~ /^(a+)+\1[bc]/;    # regex
    return 1;
}
sub run_program {
    system 'exec sleep 5';    # system
    return 1;
}
sub branch {
    if ($_[0]) {
        sleep 60;    # branch
    }
    return 1;
}
sub render {
    my $rows = nap();    # render
    return 1;
}
sub page {
    render(20);    # page
    return 1;
}
sub evaluated {
    eval "1;\nsleep 60;\n1";    # eval
    return 1;
}
sub sorted {
    return sort {
        sleep 60;    # sort
        0;
    } 2, 1;
}
sub destroyed {
    my $cart = bless [], 'Stuck::Cart';
    undef $cart;    # undef
    return 1;
}
sub tied {
    tie my $price, 'Stuck::Cart';
    my $copy = $price;    # tied
    return 1;
}
sub overloaded {
    my $cart = bless [], 'Stuck::Price';
    my $text = "$cart";    # overloaded
    return 1;
}
package Stuck::Cart;
sub TIESCALAR { return bless [], 'Stuck::Tied' }
sub DESTROY {
    sleep 60;    # DESTROY
    return 1;
}
sub Stuck::Tied::FETCH {
    sleep 60;    # FETCH
    return 1;
}
package Stuck::Price;
use overload '""' => \&text;
sub text {
    sleep 60;    # text
    return 1;
}
package main;
sub {
    my ($what) = $_[0]{PATH_INFO} =~ m{^/(\w+)};
    no strict 'refs';
    my @done = &{"Stuck::$what"}('secret');    # call
    return [200, [], ['too late']];
};
PSGI

# What the log says: where, and in which sub; the call by the application comes last.
my @hanging = (
    [nap           => [nap      => 'Stuck::nap']],
    [read_pipe     => [sysread  => 'Stuck::read_pipe']],
    [wait_for_pipe => [select   => 'Stuck::wait_for_pipe']],
    [read_line     => [readline => 'Stuck::read_line']],
    [spin          => [spin     => 'Stuck::spin']],
    [backtrack     => [regex    => 'Stuck::backtrack']],
    [run_program   => [system   => 'Stuck::run_program']],
    [branch        => [branch   => 'Stuck::branch']],
    [render        => [nap      => 'Stuck::nap'], [render => 'Stuck::render']],
    [page          => [nap      => 'Stuck::nap'], [render => 'Stuck::render'], [page => 'Stuck::page']],
    [evaluated     => ['(eval)' => '(eval)'], [eval => 'Stuck::evaluated']],
    [sorted        => [sort     => 'Stuck::sorted']],
    [destroyed     => [DESTROY  => 'Stuck::Cart::DESTROY'], [undef => '(eval)'], [undef => 'Stuck::destroyed']],
    [tied          => [FETCH    => 'Stuck::Tied::FETCH'], [tied => 'Stuck::tied']],
    [overloaded    => [text     => 'Stuck::Price::text'], [overloaded => 'Stuck::overloaded']],
);

sub place_in_log {
    my ($mark, $sub) = @{$_[0]};
    return qr/.*:     at \(eval \d+\) line 2, in \(eval\)\n/ if $mark eq '(eval)';
    my @lines = split /\n/, $HANGING;
    my ($line) = grep { $lines[$_ - 1] =~ /# \Q$mark\E$/ } 1 .. @lines;
    return qr/.*:     at \S*app\.psgi line $line, in \Q$sub\E\n/;
}

subtest 'the log says where each is stuck, not where it would go on' => sub {
    my $stuck = Howdah::Test::Server->start(
        app     => $HANGING,
        options => ['--workers', scalar @hanging, '--request-timeout', '1s']
    );
    my @clients = map { Howdah::Test::Client->new($stuck) } @hanging;
    $clients[$_]->write("GET /$hanging[$_][0] HTTP/1.1\r\nHost: x\r\n\r\n") for 0 .. $#hanging;
    is_deeply [map { $_->response->{status} } @clients], [(504) x @hanging], 'all are too late';
    for my $case (@hanging) {
        my ($name, @places) = @$case;
        my $told = join '', map { place_in_log($_) } @places, [call => 'main::__ANON__'];
        ok $stuck->wait_for_log(qr{GET /$name: howdah: worker \d+ is here:\n$told(?!.*GET /$name:     at)}), $name;
    }
    unlike $stuck->log, qr/secret|cannot be read|left out/, 'without arguments, and all of it';
    is $stuck->stop, 0;
};

# The worker hears nothing of it that its client has left: it waits in C, as the library of a database does.
my $DEAF = <<'PSGI';
use POSIX qw(SIG_BLOCK SIGURG);
POSIX::sigprocmask(SIG_BLOCK, POSIX::SigSet->new(SIGURG)) or die $!;
sub {
    my ($env) = @_;
    my $takes = $env->{PATH_INFO} eq '/socket';
    syswrite $env->{'psgix.io'}, 'welcome' if $takes;
    select undef, undef, undef, 0.1 for 1 .. ($takes ? 40 : 600);
    warn "put away\n";
    return [200, [], ['too late']];
};
PSGI

for my $case ([reset => []], [reset => ['--abort-on-disconnect']], [end => ['--abort-on-disconnect']]) {
    my ($how, $more) = @$case;
    subtest "a worker whose client has left is replaced, too: $how @$more" => sub {
        my $left = Howdah::Test::Server->start(
            app     => $DEAF,
            options => ['--workers', 2, '--request-timeout', '1500ms', @$more]
        );
        my @before = $left->workers;
        my $client = Howdah::Test::Client->asking($left, '/gone?id=7');
        $left->wait_until(sub { $left->processes(qr{worker .* GET /gone}) == 1 });
        setsockopt $client->socket, SOL_SOCKET, SO_LINGER, pack 'ii', 1, 0 if $how eq 'reset';
        close $client->socket;
        ok $left->wait_for_log(
            qr{no answer within --request-timeout: GET /gone\?id=7 from 127\.0\.0\.1; its client has left, replacing}),
            'it is told';
        ok $left->wait_until(sub {
            grep { !kill 0, $_ } @before;
            }),
            'the worker is gone';
        ok $left->wait_for_log(qr/is here:\n.*app\.psgi line 7/), 'and has said where it was';
        is $left->stop, 0;
    };
}

subtest 'one that has taken the connection may take its time when its client has left' => sub {
    my $taken  = Howdah::Test::Server->start(app => $DEAF, options => ['--workers', 1, '--request-timeout', '1s']);
    my $client = Howdah::Test::Client->new($taken);
    $client->write("GET /socket HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: own\r\n\r\n");
    sysread $client->socket, my $welcome, 7;
    is $welcome, 'welcome', 'it has';
    close $client->socket;
    ok $taken->wait_for_log(qr/put away/), 'it comes to its end';
    unlike $taken->log, qr/no answer within/;
    is $taken->stop, 0;
};

done_testing;
