# --refork: the process of a worker that has served so many requests becomes the zygote, so that all workers have what it has
# gathered. What no two processes may have keeps it from that, and the log names it.
use strict;
use warnings;
use lib 't/lib';

use Config;
use Howdah::Test::Client;
use Howdah::Test::Operator;
use Howdah::Test::Server;
use IO::Socket::INET;
use JSON::PP qw(decode_json);
use Test::More;

# Tells who serves, whose child that is, who has filled the cache first, and a number that is to be another in each process.
my $APP = <<'PSGI';
use Howdah;
my %cache;
LOAD
sub {
    $cache{first} //= $$;
    SERVE;
    [200, [], [join ' ', $$, getppid, $cache{first}, rand]];
};
PSGI

sub app { my ($load, $serve) = (@_, '', ''); return $APP =~ s/LOAD/$load/r =~ s/SERVE/$serve/r }

sub ask {
    my ($server, $path) = @_;
    my $answer = Howdah::Test::Client->ask($server, 'GET ' . ($path // '/') . " HTTP/1.0\r\n\r\n");
    return split / /, $answer->{body};
}

# So many requests at a time that take so long that each has a worker of its own, as there are enough.
sub ask_together {
    my ($server, $count) = @_;
    my @clients = map { Howdah::Test::Client->new($server) } 1 .. $count;
    $_->write("GET /slow HTTP/1.0\r\n\r\n") for @clients;
    return map { [split / /, $_->response->{body}] } @clients;
}

# Asks until that is so.
sub ask_until {
    my ($server, $condition, $path) = @_;
    return $server->wait_until(sub { ask($server, $path) for 1 .. 5; $condition->() });
}

sub title {
    my $pid = shift;
    open my $in, '<', "/proc/$pid/cmdline" or return '';
    return (<$in> // '') =~ tr/\0/ /r;
}

subtest 'workers have what one has gathered' => sub {
    my $operator = Howdah::Test::Operator->new;
    my @options  = ('--workers', 3, '--refork', 20, $operator->options);
    my $slow     = 'select undef, undef, undef, 0.05 if $_[0]{PATH_INFO} eq "/slow"';
    my $server   = Howdah::Test::Server->start(app => app('', $slow), options => \@options);
    my $pool     = sub { $operator->status->{pools}[0] };
    my $before   = $pool->()->{zygote};
    ok ask_until($server, sub { $pool->()->{reforks} == 1 }), 'a worker has become the zygote' or diag $server->log;
    my $after = $pool->();
    is $after->{generation}, 2, '... of a generation of its own';
    is_deeply [@{$after->{lifecycle}}{qw(reforks failed_reforks reloads)}], [1, 0, 0], '... which is no reload';
    like title($after->{zygote}), qr/^howdah: zygote .*app\.psgi generation 2 \(refork 1\) *$/, 'its title';
    like + ($operator->ask('status'))[1], qr/^generation  2 \(refork 1, \d+m?s ago\)$/m, 'howdah status';
    ok $server->wait_until(sub { $server->workers == 3 && $server->processes('zygote') == 1 }), 'the others have left';
    ok !kill(0, $before), '... and so has the old zygote';
    is getpgrp $after->{zygote}, $after->{zygote},
        'a group of processes of its own, and not that of the worker that is gone';

    my (%seen, %number);
    my $note = sub { my ($pid, @rest) = @_; $seen{$pid} = \@rest; $number{$rest[2]}++ };
    $server->wait_until(sub { $note->(@$_) for ask_together($server, 3); keys %seen == 3 });
    is_deeply [map { $_->[0] } values %seen], [($after->{zygote}) x 3], 'its workers serve';
    my ($first, @others) = map { $_->[1] } values %seen;
    is_deeply \@others, [$first, $first], '... with what a worker had gathered';
    ok !exists $seen{$first}, '... that is there no more';
    is scalar(grep { $_ > 1 } values %number), 0, '... and random numbers of their own';

    is + ($operator->ask('reload'))[0], 0, 'a reload';
    is_deeply [@{$pool->()}{qw(generation reforks)}], [3, 0], '... loads the application';
    ok ask_until($server, sub { $pool->()->{reforks} == 1 }), '... after which there is another refork';
    kill KILL => $pool->()->{zygote};
    ok $server->wait_until(sub { my $now = $pool->(); $now->{generation} == 5 && $now->{reforks} == 0 }),
        'one that is killed is replaced by one that loads the application';
    is $server->stop, 0;
    unlike $server->log, qr/no refork/;
};

subtest 'what a route leaves behind is told by its name, also of one that the worker has known' => sub {
    my $operator = Howdah::Test::Operator->new;
    my @options  = ('--workers', 1, '--refork', 3, $operator->options);
    my $leaking  = app('my @kept;', 'push @kept, [map { [] } 1 .. 100]');
    my $server   = Howdah::Test::Server->start(app => $leaking, options => \@options);
    ok ask_until($server, sub { $operator->status->{pools}[0]{reforks} == 1 }), 'the worker has become the zygote';
    my $routes = sub {
        my ($status, $out) = $operator->ask(qw(leaks --json --seconds 50ms));
        return $status ? () : map { $_->{route} } @{decode_json($out)->{routes}};
    };
    ok ask_until($server, sub { ($routes->())[0] }), 'what requests leave behind is told';
    is_deeply [$routes->()], ['/'], '... with their route';
};

subtest 'a child of a worker_exit hook that comes back from it' => sub {
    my $operator = Howdah::Test::Operator->new;
    my @options  = ('--workers', 1, '--refork', 3, $operator->options);
    my $hook =
        'Howdah->worker_exit(sub { my $child = fork // die; return waitpid $child, 0 if $child; $cache{first} = "child" });';
    my $server = Howdah::Test::Server->start(app => app($hook), options => \@options);
    ok ask_until($server, sub { $operator->status->{pools}[0]{reforks} == 1 }), 'the worker becomes the zygote';
    like + (ask($server))[2], qr/^\d+$/, '... and not the child';
    is $server->stop, 0;
};

subtest 'as often as there are numbers' => sub {
    my $operator = Howdah::Test::Operator->new;
    my @options  = ('--workers', 2, '--refork', '5,10', $operator->options);
    my $server   = Howdah::Test::Server->start(app => app(), options => \@options);
    ok ask_until($server, sub { $operator->status->{pools}[0]{reforks} == 2 }), 'twice';
    my ($zygote) = grep { title($_) =~ /\(refork 2\)/ } $server->processes('zygote');
    ok $zygote, 'the title counts';
    ask($server) for 1 .. 60;
    is $operator->status->{pools}[0]{generation}, 3, 'and no more';
    is scalar(my @descriptors = glob "/proc/$zygote/fd/*"), scalar(glob_of_first($server)),
        'no descriptor is left over';
};

# As many as the zygote of a server has that has loaded the same, and nothing else.
sub glob_of_first {
    my $other       = Howdah::Test::Server->start(app => app(), options => ['--workers', 2]);
    my ($zygote)    = $other->processes('zygote');
    my @descriptors = glob "/proc/$zygote/fd/*";
    return @descriptors;
}

my $tcp     = IO::Socket::INET->new(Listen => 500, LocalAddr => '127.0.0.1') or die $!;
my $peer    = '127.0.0.1:' . $tcp->sockport;
my $connect = "use IO::Socket::INET; our \$db; sub db { \$db //= IO::Socket::INET->new('$peer') }";

subtest 'a reload before the worker has come to the end of its request' => sub {
    my $operator = Howdah::Test::Operator->new;
    my $app      = 'my $served; sub { sleep 60 if $_[0]{PATH_INFO} eq "/long"; [200, [], [++$served]] }';
    my @options  = ('--workers', 1, '--refork', 3, '--graceful-timeout', '1s', $operator->options);
    my $server   = Howdah::Test::Server->start(app => $app, options => \@options);
    my $long     = Howdah::Test::Client->new($server);
    $long->write(join '', map { "GET $_ HTTP/1.1\r\nHost: x\r\n\r\n" } qw(/ / / /long));
    ok $server->wait_until(sub { $server->workers == 2 }), 'another worker takes its place';
    is + ($operator->ask('reload'))[0], 0, 'it succeeds';
    ok $server->wait_for_log(qr/the refork is given up: something newer/), '... and takes the place of the refork';
    $long->rest;
    ask($server, '/') for 1 .. 3;
    ok $server->wait_until(sub { $operator->status->{pools}[0]{reforks} == 1 }), 'the new generation has one soon';
    my $lifecycle = $operator->status->{lifecycle};
    is_deeply [@$lifecycle{qw(reloads failed_reloads reforks failed_reforks)}], [1, 0, 1, 0], 'nothing has failed';
};

# What becomes of the refork of a server with one worker: the reason why there is none, or ''.
sub outcome {
    my (@code)   = @_;
    my $operator = Howdah::Test::Operator->new;
    my @options  = ('--workers', 1, '--refork', 3, $operator->options);
    my $server =
        Howdah::Test::Server->start(app => app(@code), options => \@options, env => {SCRATCH => $operator->dir});
    ask_until($server, sub { $server->log =~ /no refork/ || $operator->status->{pools}[0]{reforks} });
    my ($why) = $server->log =~ /no refork, the zygote stays: (.*)\. The next try/;
    ok scalar ask($server), 'it serves' if $why;
    is $server->stop, 0, 'it stops';
    return $why // '';
}

subtest 'what no two processes may have' => sub {
    my ($timer_create) = map { {x86_64 => 222, aarch64 => 107}->{$_} // () } $Config{archname} =~ /^([^-]+)/;
    my @refused = (
        -e '/proc/self/timers' && $timer_create
        ? ['a timer of timer_create', ['', "syscall $timer_create, 1, 0, my \$id = pack 'i', 0"], qr/a timer runs/]
        : (),
        ['a connection', [$connect, 'db()'], qr/descriptor \d+ is open, connected to \Q$peer\E$/],
        ['a file', ['our $f;', 'open $f, "<", "/etc/passwd"'], qr{descriptor \d+ is open, /etc/passwd}],
        [
            'a listener',
            ['use IO::Socket::INET; our $l;', '$l //= IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1")'],
            qr/descriptor \d+ is open, socket:/
        ],
        ['a pipe', ['our ($r, $w);', 'pipe $r, $w if !$r'], qr{descriptor \d+ is open, pipe:}],
        ['a child', ['our $c;', '$c //= fork // die; exec "sleep", 5 if !$c'], qr/it has children/],
        ['a timer', ['', 'alarm 100'], qr/a timer runs/],
        [
            'a timer of processor time',
            ['use Time::HiRes;', 'Time::HiRes::setitimer(Time::HiRes::ITIMER_VIRTUAL(), 100)'],
            qr/a timer runs/
        ],
        [
            'a generator', ['', '$INC{"Math/Random/ISAAC.pm"} = 1'],
            qr/Math::Random::ISAAC is loaded: its random numbers/
        ],
        [
            'a key',
            [
                '$INC{"CryptX.pm"} = $INC{"Crypt/PK/ECC.pm"} = 1; $CryptX::VERSION = "0.087"; our $key;',
                '$key //= bless \my $state, "Crypt::PK::ECC"'
            ],
            qr/it has an object of Crypt::PK::ECC: its random numbers/
        ],
    );
    for my $case (@refused) {
        my ($name, $code, $reason) = @$case;
        like outcome(@$code), $reason, $name;
    }
    like outcome("$connect Howdah->worker_exit(sub { die 'no end' });", 'db()'), qr/connected to/,
        'and a hook that fails';
};

subtest 'what they may' => sub {
    my $end  = 'sub has_ended { open my $in, "<", "/proc/$_[0]/stat" or die; return <$in> =~ /\) Z / }';
    my %fine = (
        'a log'                        => ['our $log;', 'open $log, ">>", "$ENV{SCRATCH}/log"'],
        'random numbers of the system' => ['our $r;', 'open $r, "<", "/dev/urandom"'],
        'opened when it was loaded'    => ['open our $f, "<", "/etc/passwd"; pipe our $r, our $w;'],
        'closed in worker_exit'        => ["$connect Howdah->worker_exit(sub { close \$db });", 'db()'],
        'children that have ended'     =>
            [$end, 'system "true"; my $none = fork // die; exec "true" if !$none; 1 until has_ended($none)'],
        'a socket that is nothing yet' => ['use Socket; our $s;', 'socket $s, AF_INET, SOCK_STREAM, 0'],
        'a timer that has ended'       => ['', 'alarm 100; alarm 0'],
        'data behind a module'         => ['', 'require "./t/apps/behind.pm"'],
    );
    is outcome(@{$fine{$_}}), '', $_ for sort keys %fine;
};

subtest 'a writer that is left over from the worker that became the zygote' => sub {
    my $operator = Howdah::Test::Operator->new;
    my $server   = Howdah::Test::Server->start(
        options => ['--workers', 1, '--refork', 3, $operator->options],
        app     => 'my ($kept, $owner);
            sub { sub {
                my $writer = shift->([200, []]);
                $owner //= $$;
                $kept //= $writer;
                my $is_written = $$ != $owner && eval { $kept->write("of another"); 1 };
                $writer->write(join " ", $$ == $owner ? "first" : "later", $is_written || "no");
                $writer->close;
            } }',
    );
    my (%seen, $answer);
    my $serve = sub { $seen{$answer = Howdah::Test::Client->ask($server, "GET / HTTP/1.0\r\n\r\n")->{body}}++ };
    ok $server->wait_until(sub { $serve->(); $answer =~ /later/ }), 'its workers serve';
    $serve->() for 1 .. 10;
    is_deeply [sort keys %seen], ['first no', 'later no'], '... and it writes into no response of theirs';
    is $server->stop, 0;
};

subtest 'plackup' => sub {
    my $operator = Howdah::Test::Operator->new;
    my $dir      = Howdah::Test::Server->launch(listen => undef, command => ['true']);
    my @command  = ($^X, '-S', 'plackup', '-s', 'Howdah', '-E', 'test', '--listen', '127.0.0.1:0');
    my $server   = Howdah::Test::Server->start(
        command => [@command, '--workers', 2, '--refork', 10, '--control', $operator->control],
        file    => $dir->write_file('plackup.psgi', app()),
    );
    ok ask_until($server, sub { $operator->status->{pools}[0]{reforks} == 1 }), 'its zygote is succeeded, too';
    is + ($operator->ask('reload'))[0], 0, 'and a reload replaces the workers from there';
    my ($pid, $parent) = ask($server);
    is $parent, $operator->status->{pools}[0]{zygote};
    is $server->stop, 0;
};

subtest 'one application of two' => sub {
    my $operator = Howdah::Test::Operator->new;
    my $dir      = Howdah::Test::Server->launch(listen => undef, command => ['true']);
    my $mount    = '/a=' . $dir->write_file('a.psgi', app()) . ',refork=5+10';
    my @options  = ('--workers', 1, '--mount', $mount, $operator->options);
    my $server   = Howdah::Test::Server->start(app => app(), options => \@options);
    my $reforks  = sub {
        join ' ', map { $_->{reforks} } @{$operator->status->{pools}};
    };
    ok ask_until($server, sub { $reforks->() eq '0 2' }, '/a/'), 'its own number' or diag $reforks->();
    is $server->stop, 0;
};

done_testing;
