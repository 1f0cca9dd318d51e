# howdah where: what a worker does now, wherever it hangs, and that looking costs no request.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Operator;
use Howdah::Test::Server;
use JSON::PP;
use Test::More;

my $APP = <<'PSGI';
package Shop;
use Digest::SHA ();
use Socket;
our ($near, $far);
socketpair $near, $far, AF_UNIX, SOCK_STREAM, PF_UNSPEC or die $!;
socket my $listener, PF_INET, SOCK_STREAM, 0 or die $!;
bind $listener, sockaddr_in(0, INADDR_LOOPBACK) or die $!;
listen $listener, 1 or die $!;
my $big = 'x' x 4_000_000;
sub regex { return ('a' x 60) =~ /^(a+)+\1[bc]/ }
sub nap { return sleep 60 }
sub pair { return sysread $near, my $buffer, 1 }
sub wait_for { return select $_[0], undef, undef, 60 }
sub database {
    socket my $client, PF_INET, SOCK_STREAM, 0 or die $!;
    connect $client, getsockname $listener or die $!;
    vec(my $bits = '', fileno $client, 1) = 1;
    return $_[0] eq 'read' ? sysread $client, my $buffer, 1 : wait_for($bits);
}
sub endless { my $i = 0; $i++ while 1; return $i }
sub digest { Digest::SHA::sha512($big) while 1; return }
sub deep { return $_[0] ? deep($_[0] - 1) : nap() }
sub destroyed { my $self = bless [], 'Shop::Cart'; return }
sub sorted { return sort { nap(); 0 } 2, 1 }
sub Shop::Cart::DESTROY { nap() }
package main;
my %do = (
    regex => \&Shop::regex, nap => \&Shop::nap, pair => \&Shop::pair, endless => \&Shop::endless,
    digest => \&Shop::digest, destroyed => \&Shop::destroyed, sorted => sub { my @all = Shop::sorted() },
    select => sub { Shop::database('select') }, socket => sub { Shop::database('read') }, deep => sub { Shop::deep(1000) },
    deepest => sub { Shop::deep(20_000) },
);
sub {
    my ($what) = $_[0]{PATH_INFO} =~ m{^/(\w+)} or return [200, [], ['ok']];
    $do{$what}->();
    return [200, [], ['done']];
};
PSGI

sub line_of {
    my $code  = shift;
    my @lines = split /\n/, $APP;
    return (grep { index($lines[$_ - 1], $code) >= 0 } 1 .. @lines)[0];
}

my $operator = Howdah::Test::Operator->new;
my @options  = ($operator->options, '--workers', 2, '--max-queue', 500);
my $server   = Howdah::Test::Server->start(app => $APP, options => \@options);

sub seen {
    my ($status, $out, $err) = $operator->ask('where', '--json', @_);
    is $status, 0 or diag $err;
    return @{decode_json($out)->{workers}};
}

is_deeply [map { [@$_{qw(state request stack)}] } seen()], [(['idle', undef, []]) x 2],
    'two workers wait for a request';

# Path, state, system call, descriptor, perl's name of what runs, what people read, sub and its line.
my @cases = (
    ['regex', 'runs', undef, undef, 'match', qr/runs a regular expression \(match\)/, 'Shop::regex', 'sub regex'],
    [
        'endless', 'runs', undef, undef, undef, qr/runs Perl code; the stack changes|runs/, 'Shop::endless',
        'sub endless'
    ],
    [
        'digest', 'runs', undef, undef, 'entersub', qr/runs the C code of Digest::SHA::sha512$/m, 'Shop::digest',
        'sub digest'
    ],
    ['nap', 'waits', qr/nanosleep/, undef, undef, qr/waits in the system call \w*nanosleep$/m, 'Shop::nap', 'sub nap'],
    [
        'pair', 'waits', qr/^read$/, qr/^Unix socket/, undef, qr/call read, descriptor \d+: Unix socket/, 'Shop::pair',
        'sub pair'
    ],
    [
        'socket', 'waits', qr/^read$/, qr/^socket to 127\.0\.0\.1:\d+$/, undef, qr/socket to 127/, 'Shop::database',
        'sysread $client'
    ],
    [
        'select', 'waits', qr/select/, qr/^socket to 127\.0\.0\.1:\d+$/, undef, qr/socket to 127/, 'Shop::wait_for',
        'sub wait_for'
    ],
    ['deep', 'waits', qr/nanosleep/, undef, undef, qr/and \d+ more frames around it/, 'Shop::nap', 'sub nap'],
    [
        'deepest', 'waits', qr/nanosleep/, undef, undef, qr/and at least \d+ more frames around it/, 'Shop::nap',
        'sub nap'
    ],
    ['destroyed', 'waits', qr/nanosleep/, undef, undef, qr/Shop::Cart::DESTROY/, 'Shop::nap', 'sub nap'],
    ['sorted', 'waits', qr/nanosleep/, undef, undef, qr/Shop::sorted/, 'Shop::nap', 'sub nap'],
);
for my $case (@cases) {
    my ($path, $state, $call, $descriptor, $operation, $people, $sub, $code) = @$case;
    subtest "a worker in /$path" => sub {
        my $client = Howdah::Test::Client->asking($server, "/$path?x=1");
        my $worker;
        my $found = $server->wait_until(
            sub {
                ($worker) = grep { $_->{state} eq $state && @{$_->{stack}} && $_->{stack}[0]{sub} eq $sub } seen();
                return $worker && (!defined $operation || $worker->{operation} eq $operation);
            },
            10
        );
        ok $found, 'is seen there' or return;
        is_deeply [@{$worker->{request}}{qw(method target path)}], ['GET', "/$path?x=1", "/$path"], 'with its request';
        cmp_ok $worker->{seconds}, '>', 0;
        like $worker->{call}, $call, 'its system call' if $call;
        like $worker->{descriptor}{what}, $descriptor, 'what it waits for' if $descriptor;
        is $worker->{stack}[0]{line}, line_of($code), 'its line';
        like $worker->{stack}[0]{file}, qr/app\.psgi$/;
        my $outermost = $worker->{cut} ? qr/^Shop::deep$/ : qr/^main::__ANON__\(app\.psgi:\d+\)$/;
        like $worker->{stack}[-1]{sub}, $outermost, 'and what is around it';
        my (undef, $out) = $operator->ask('where', '--worker', $worker->{worker});
        like $out,
            qr/^worker $worker->{worker}, process $worker->{pid}, generation 1: GET \/$path\?x=1, for [\d.]+ s$/m;
        like $out, $people;
        like $out, qr/^    \Q$sub\E +\S+app\.psgi line \d+$/m;
        kill KILL => $worker->{pid};
        $client->response;
    };
}

subtest 'one that is stopped' => sub {
    my ($worker) = seen();
    kill STOP => $worker->{pid};
    my $stopped = sub {
        (grep { $_->{worker} == $worker->{worker} } seen())[0]{state} eq 'stopped';
    };
    ok $server->wait_until($stopped), 'it says so';
    like + ($operator->ask('where', '--worker', $worker->{worker}))[1], qr/^  is stopped, by a signal or a debugger$/m;
    kill CONT => $worker->{pid};
    ok $server->wait_until(sub { !$stopped->() }), 'and no more when it goes on';
};

subtest 'a sub with a name that is not ASCII, and one that has lines' => sub {
    my $odd = <<'APP';
use utf8;
use Sub::Util qw(set_subname);
sub größe { sleep 60 }
my $forges = set_subname("Shop::a\nworker 9", sub { größe() });
sub { $forges->(); [200, [], []] };
APP
    my $asked  = Howdah::Test::Operator->new;
    my $served = Howdah::Test::Server->start(app => $odd, options => ['--workers', 1, $asked->options]);
    my $client = Howdah::Test::Client->asking($served, '/');
    my $out;
    ok $served->wait_until(sub { ($out = ($asked->ask('where'))[1]) =~ /sleep/ }), 'is seen';
    like $out, qr/^    \S+::gr\xc3\xb6\xc3\x9fe +\S+app\.psgi line 3$/m, 'under the name that its source gives it';
    like $out, qr/^    Shop::a\\x0aworker 9 +\S+app\.psgi line 4$/m, 'in one line';
};

my @wrong = (
    [['--worker', 99], qr/there is no worker 99: howdah status lists/],
    [['--pool', '/none'], qr{no application is mounted at /none; there is /}],
);
for my $case (@wrong) {
    my ($status, undef, $err) = $operator->ask('where', @{$case->[0]});
    is $status, 1;
    like $err, $case->[1];
}

done_testing;
