# The extensions of PSGI::Extensions that Howdah offers.
use strict;
use warnings;
use lib 't/lib';

use File::Temp ();
use Howdah::Test::Client;
use Howdah::Test::Server;
use Test::More;

my $server = Howdah::Test::Server->start(options => ['--workers', 1], app => <<'PSGI');
my @done;
{ package Guard; sub DESTROY { eval { die "caught\n" } } }
{ package Listed; require Tie::Array; our @ISA = 'Tie::StdArray'; sub FETCH { die "no handler\n" } }
{ package Leaves; sub DESTROY { push @done, 'env gone' } }
{ package Uncounted; our @ISA = 'Tie::StdArray'; sub FETCHSIZE { die "no count\n" } }
{ package Mute; use overload q{""} => sub { die }, fallback => 1 }
my %do = (
    env => sub {
        my $env = shift;
        [200, [], [map {"$_=" . (ref $env->{$_} ? ref $env->{$_} : $env->{$_}) . "\n"} sort keys %$env]];
    },
    version => sub { [200, [], ["@{$_[0]{'psgi.version'}}"]] },
    errors  => sub { $_[0]{'psgi.errors'}->print("a word for the log\n"); [200, [], []] },
    cleanup => sub {
        my $env = shift;
        push @{$env->{'psgix.cleanup.handlers'}}, sub { push @done, $_[0]{PATH_INFO} }, sub { die "bad cleanup\n" },
            sub { push @done, 'last' };
        [200, [], ["so far: @done"]];
    },
    amiss => sub {
        my $env = shift;
        my $mute = bless {}, 'Mute';
        push @{$env->{'psgix.cleanup.handlers'}}, sub { no warnings; last }, sub { die $mute }, sub { fork or return },
            sub { push @done, "handler of $$" };
        [200, [], [$$]];
    },
    empties => sub {
        my $env = shift;
        push @{$env->{'psgix.cleanup.handlers'}}, sub { %{$_[0]} = (); push @done, 'emptied' }, sub { push @done, 'and on' };
        [200, [], [$$]];
    },
    guarded => sub { push @{$_[0]{'psgix.cleanup.handlers'}}, sub { bless [], 'Guard' }; [200, [], [$$]] },
    tied => sub { tie @{$_[0]{'psgix.cleanup.handlers'}}, 'Listed'; push @{$_[0]{'psgix.cleanup.handlers'}}, 1; [200, [], [$$]] },
    uncounted => sub {
        my $env = shift;
        tie @{$env->{'psgix.cleanup.handlers'}}, 'Uncounted';
        $env->{guard} = bless [], 'Leaves';
        [200, [], [$$]];
    },
    done => sub { [200, [], ["@done"]] },
    hint => sub {
        my $env = shift;
        $env->{'psgix.informational'}->(103, ['Link' => '</style.css>; rel=preload']);
        [200, [], ['final']];
    },
    late => sub {
        my $env = shift;
        sub { my $w = shift->([200, []]); eval { $env->{'psgix.informational'}->(103, []) }; $w->write($@); $w->close };
    },
    copy => sub { my %copy = %{$_[0]}; my $text = "$copy{'psgix.io'}"; [200, [], ['untouched']] },
    take => sub {
        my $io = $_[0]{'psgix.io'};
        sub { syswrite $io, "raw "; sysread $io, my $got, 100; print {$io} uc $got; close $io };
    },
    lines => sub {
        my $io = $_[0]{'psgix.io'};
        sub { $io->print("peer ", $io->peerhost, "\n"); while (my $line = <$io>) { print {$io} "got $line" } };
    },
    upgrade => sub {
        my $io = $_[0]{'psgix.io'};
        sub { print {$io} "HTTP/1.1 101 Switching Protocols\r\n\r\n", scalar <$io> };
    },
    kept => sub { our $kept //= $_[0]{'psgix.io'}; [200, [], ['kept']] },
    used => sub { our $kept; my $ok = eval { syswrite $kept, 'x'; 1 }; [200, [], [$ok ? 'written' : $@]] },
);
sub { my $env = shift; $do{substr $env->{PATH_INFO}, 1}->($env) };
PSGI

sub request { return "GET /$_[0] HTTP/1.1\r\nHost: x\r\nConnection: close\r\n$_[1]\r\n" }
sub ask { return Howdah::Test::Client->ask($server, request($_[0], '')) }

# All that the server sends on a connection of its own, after the request and these bytes.
sub raw {
    my ($name, $head, @later) = @_;
    my $client = Howdah::Test::Client->new($server);
    $client->write(request($name, $head) . ($later[0] // ''));
    $client->shut;
    my $all = '';
    1 while sysread $client->socket, $all, 1000, length $all;
    return $all;
}

my %env  = map { split /=/, $_, 2 } split /\n/, ask('env')->{body};
my %true = map { $_ => 1 } qw(psgi.multiprocess psgi.streaming psgix.input.buffered psgix.cleanup psgix.harakiri);
is($env{$_}, 1, "$_ is true") for sort keys %true;
is($env{$_}, '', "$_ is false") for qw(psgi.multithread psgi.run_once psgi.nonblocking SCRIPT_NAME QUERY_STRING);
is($env{'psgi.url_scheme'}, Howdah::Test::Tls->is_wanted ? 'https' : 'http', 'psgi.url_scheme');
is($env{REMOTE_ADDR}, '127.0.0.1', 'REMOTE_ADDR');
like($env{REMOTE_PORT}, qr/^\d+$/, 'REMOTE_PORT');
ok(!exists $env{HTTP_CONTENT_TYPE}, 'no HTTP_CONTENT_TYPE');
is(ask('version')->{body}, '1 1', 'psgi.version');
ask('errors');
ok($server->wait_for_log(qr{ GET /errors: a word for the log$}m), 'psgi.errors is the error log');

is(ask('cleanup')->{body}, 'so far: ', 'cleanup handlers run after the response');
is(ask('done')->{body}, '/cleanup last', '... each with the env, also when one has died');
ok($server->wait_for_log(qr{ GET /cleanup: a cleanup handler failed: bad cleanup$}m), '... which is logged');

my $worker = ask('amiss')->{body};
like(
    ask('done')->{body}, qr/ handler of $worker\z/,
    'handlers that leave by last, die mutely or return in a child: the next one runs'
);
ok($server->wait_for_log(qr{ GET /amiss: a cleanup handler failed: $_}m), "... and the log has it: $_")
    for q{Can't "last" outside a loop block}, 'an exception of class Mute, of which no text can be made';

is(ask('empties')->{body}, $worker, 'a handler that empties the env');
like(ask('done')->{body}, qr/ emptied and on\z/, '... has the next one run');
is(ask('guarded')->{body}, $worker, '... in the same worker');
is(ask('done')->{status}, 200);
unlike($server->log, qr/GET \/guarded/, 'what a destructor has caught behind a handler is no failure of that');

for (
    ['tied', 'a cleanup handler failed: no handler'],
    ['uncounted', 'psgix.cleanup.handlers cannot be counted: no count']
    )
{
    my ($name, $told) = @$_;
    is ask($name)->{body}, $worker, "handlers that are $name";
    ok $server->wait_for_log(qr{ GET /$name: \Q$told\E$}m), '... are told of as those of their request';
    is ask('done')->{status}, 200, '... in the same worker';
}
like(ask('done')->{body}, qr/ env gone\z/, '... and their env goes with the request');

my $hinted = raw('hint', '');
like(
    $hinted, qr{^HTTP/1\.1 103 Early Hints\r\nLink: </style\.css>; rel=preload\r\n\r\nHTTP/1\.1 200 },
    'psgix.informational'
);
like($hinted, qr/\r\n\r\nfinal$/, '... before the final response');
like(ask('late')->{body}, qr/^psgix\.informational comes too late/, '... and not after it');

is(ask('copy')->{body}, 'untouched', 'copying the env leaves the connection alone');
is(raw('take', '', 'hello'), 'raw HELLO', 'psgix.io is the connection, with what was sent behind the request');
is(raw('lines', '', "a\nb\n"), "peer 127.0.0.1\ngot a\ngot b\n", '... line by line, with methods of sockets');
my $upgrade = raw('upgrade', "Connection: upgrade\r\nUpgrade: chat\r\n", "early\n");
is($upgrade, "HTTP/1.1 101 Switching Protocols\r\n\r\nearly\n", 'an upgrade takes it over');
is(ask('kept')->{body}, 'kept', 'a handle kept beyond its request');
like(ask('used')->{body}, qr/^(?:psgix\.io: |written)/, '... is not somebody else\'s connection');
is(ask('done')->{status}, 200, 'and the worker serves on');

subtest 'an application whose patience ends while the class of connections is loaded' => sub {
    my $dir = File::Temp->newdir('howdah-test-XXXXXX', TMPDIR => 1);
    mkdir "$dir/$_" or die $! for 'IO', 'IO/Socket';
    open my $out, '>', "$dir/IO/Socket/INET.pm" or die $!;
    print {$out} 'my $end = time + 3; select undef, undef, undef, 0.1 while time < $end; do((grep { -e } ',
        'map { "$_/IO/Socket/INET.pm" } @INC)[1]) or die;';
    close $out or die $!;
    my $server = Howdah::Test::Server->start(options => ['--workers', 1, '-I', "$dir"], app => <<'PSGI');
        sub {
            my $io = $_[0]{'psgix.io'};
            return [200, [], [$$]] if $_[0]{PATH_INFO} eq '/';
            local $SIG{ALRM} = sub { die "no patience\n" };
            my $taken = eval { alarm 1 if $_[0]{PATH_INFO} eq '/soon'; fileno $io; 1 };
            alarm 0;
            syswrite $io, $taken ? 'taken' : "not: $@";
            return sub { close $io };
        }
PSGI
    my $pid = Howdah::Test::Client->ask($server, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")->{body};

    for (['/soon', "not: no patience\n"], ['/', $pid], ['/later', 'taken']) {
        my ($path, $said) = @$_;
        my $client = Howdah::Test::Client->new($server);
        $client->write("GET $path HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        is $client->rest =~ s/.*\r\n\r\n//sr, $said, $path;
    }
    unlike $server->log, qr/Attempt to reload/, 'it can be loaded';
};

done_testing;
