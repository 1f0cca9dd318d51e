# --share-cpu: front and worker share a processor while requests are quick and many, and neither longer nor with anybody else.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Operator;
use Howdah::Test::Server;
use IO::Socket::INET;
use Test::More;
use Time::HiRes qw(sleep time);

my $APP = <<'PSGI';
sub {
    my $path = $_[0]{PATH_INFO};
    my $end = time + 3;
    if ($path eq '/long') { 1 while time < $end }
    return [200, [], ["$$ " . ($path eq '/child' ? `cat /proc/self/status` : 'quick')]];
};
PSGI

sub allowed {
    my ($text) = @_;
    return $text =~ /^Cpus_allowed_list:\s*(\S+)/m ? $1 : '';
}

sub mask {
    my ($pid) = @_;
    open my $in, '<', "/proc/$pid/status" or return '';
    return allowed(join '', <$in>);
}

my $home = mask($$);
plan skip_all => 'needs two processors' if $home !~ /[-,]/;
plan skip_all => 'needs times of the scheduler' if !-r '/proc/self/schedstat';

# Asks on some connections at a time, without a pause, until it is killed.
sub load {
    my ($server, $connections) = @_;
    my $pid = fork // die "fork: $!";
    return $pid if $pid;
    my @sockets = map { IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $server->port) || die "connect: $!" }
        1 .. $connections;
    alarm 60;
    while (@sockets == grep { syswrite $_, "GET / HTTP/1.1\r\nHost: h\r\n\r\n" } @sockets) {
        last if grep { !sysread $_, my $answer, 65536 } @sockets;
    }
    require POSIX;
    POSIX::_exit(0);
}

sub ask {
    my ($server, $path) = @_;
    return Howdah::Test::Client->ask($server, "GET $path HTTP/1.0\r\n\r\n")->{body};
}

sub start {
    my (@options) = @_;
    my $operator  = Howdah::Test::Operator->new;
    my $server    = Howdah::Test::Server->start(app => $APP, options => ['--workers', 2, $operator->options, @options]);
    return ($server, $operator->pid, $operator);
}

sub with_load {
    my ($server, $connections, $code) = @_;
    my $load = load($server, $connections);
    $code->();
    kill KILL => $load;
    waitpid $load, 0;
    return;
}

sub workers {
    my ($operator) = @_;
    return grep { $_ } map { $_->{pid} } @{$operator->status->{pools}[0]{workers}{list}};
}

# The workers that keep to the front's processor.
sub mates {
    my ($front, $operator) = @_;
    my $cpu = mask($front);
    return $cpu =~ /^\d+$/ ? grep { mask($_) eq $cpu } workers($operator) : ();
}

subtest 'together under load, apart after it' => sub {
    my ($server, $front, $operator) = start();
    with_load(
        $server, 4,
        sub {
            ok $server->wait_until(sub { 1 == (() = mates($front, $operator)) }),
                'the front and one worker keep to a processor';
            is + (grep { mask($_) eq $home } workers($operator)), 1, 'the other worker does not';
            is allowed(ask($server, '/child')), $home, 'nor what the application runs' for 1 .. 3;
        }
    );
    ok $server->wait_until(sub { mask($front) eq $home }), 'the front is free again';
    ask($server, '/') for 1 .. 4;
    ok $server->wait_until(sub {
        !grep { mask($_) ne $home } workers($operator);
        }),
        'and its worker';
};

subtest 'requests that take long' => sub {
    my ($server, $front, $operator) = start();
    with_load(
        $server, 4,
        sub {
            ok $server->wait_until(sub { mates($front, $operator) }), 'together';
            my @long = map { Howdah::Test::Client->new($server) } 1, 2;
            $_->write("GET /long HTTP/1.0\r\n\r\n") for @long;
            my $begun = time;
            ok $server->wait_until(sub { mask($front) eq $home }), 'part them';
            cmp_ok time - $begun, '<', 2.5, '... before they end';
            like $_->response->{body}, qr/quick/, '... and are answered' for @long;
            ok $server->wait_until(sub { mates($front, $operator) }), 'together again later';
        }
    );
};

subtest 'a worker that is killed' => sub {
    my ($server, $front, $operator) = start();
    with_load(
        $server, 4,
        sub {
            ok $server->wait_until(sub { mates($front, $operator) }), 'together';
            my ($mate) = mates($front, $operator);
            kill KILL => $mate;
            ok $server->wait_until(sub {
                grep { $_ != $mate } mates($front, $operator);
                }),
                'then with another one';
        }
    );
    ok $server->wait_until(sub { mask($front) eq $home }), 'the front is free in the end';
    ask($server, '/') for 1 .. 4;
    ok $server->wait_until(sub {
        my @all = workers($operator);
        @all == 2 && !grep { mask($_) ne $home } @all;
        }),
        'and so is the one in its place';
};

subtest 'a reload' => sub {
    my ($server, $front, $operator) = start();
    my @old = workers($operator);
    with_load(
        $server, 4,
        sub {
            ok $server->wait_until(sub { mates($front, $operator) }), 'together';
            $server->signal('HUP');
            ok $server->wait_until(sub {
                my @mates = mates($front, $operator);
                @mates == 1 && !grep { $_ == $mates[0] } @old;
                }),
                'then with a new worker';
            is_deeply [
                grep {
                    my $pid = $_;
                    !grep { $_ == $pid } @old
                } grep { mask($_) } @old
                ],
                [], 'none of the old ones is left';
        }
    );
};

subtest 'not where nothing is won' => sub {
    for my $case (['--share-cpu', 'off'], ['--front-threads', 2], []) {
        my ($server, $front, $operator) = start(@$case);
        my $connections = @$case ? 4 : 1;
        with_load(
            $server, $connections,
            sub { sleep 0.6; is mask($front), $home, "@$case, $connections at a time" }
        );
        cmp_ok $operator->status->{requests}{total}, '>', 600, '... of many';
    }
};

subtest 'where the server has one processor' => sub {
    plan skip_all => 'needs taskset' if !grep { -x "$_/taskset" } split /:/, $ENV{PATH};
    my ($one) = $home =~ /^(\d+)/;
    system "taskset -cp $one $$ > /dev/null";
    my ($server, $front, $operator) = start();
    with_load($server, 4, sub { sleep 0.6; is mask($front), $one, 'it keeps to it' });
    is_deeply [grep { mask($_) ne $one } workers($operator)], [], 'and so do workers';
    system "taskset -cp $home $$ > /dev/null";
};

done_testing;
