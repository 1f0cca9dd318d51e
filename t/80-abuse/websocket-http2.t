# Streams that an application has taken (RFC 8441), at their ends and in bad company: clients that break off, vanish and read
# nothing, applications that do, workers that are killed, bounds, and the changes of a server that goes on.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Command qw(howdah_bin);
use Howdah::Test::Frames qw(LAST);
use Howdah::Test::Operator;
use Howdah::Test::Server;
use Howdah::Test::Tls;
use Howdah::Test::Tunnel;
use Howdah::Test::Upgrades qw(come_to counts);
use List::Util qw(min);
use Test::More;
use Time::HiRes qw(sleep time);

my $app = <<'PSGI';
my $head = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
sub lines {
    my $io = shift;
    while (defined(my $line = <$io>)) { printf {$io} "%07d %s", $$, $line }
    warn sprintf "the client of %07d has left\n", $$;
}
my %do = (
    '/lines' => \&lines,
    '/child' => sub {
        my $pid = fork // die $!;
        return if $pid;
        lines(@_);
        require POSIX;
        POSIX::_exit(0);
    },
    '/flood' => sub { print {$_[0]} 'x' x 65536 or last for 1 .. 320; warn "all is said\n" },
    '/later' => sub { sleep 2; my $all = 0; while (my $got = sysread $_[0], my $x, 65536) { $all += $got } print {$_[0]} $all },
    '/deaf'  => sub { sleep 1 for 1 .. 4; warn "it looks up\n" },
    '/deaf-for-long' => sub { sleep 60 },
);
sub {
    my $env = shift;
    my ($do, $io) = ($do{$env->{PATH_INFO}}, $env->{'psgix.io'});
    return $do ? sub { print {$io} $head; $do->($io) } : [200, [], ["worker $$"]];
};
PSGI
my @pages = ('--status-path', '/status');

sub open_to {
    my ($frames, $path) = @_;
    return Howdah::Test::Tunnel->new($frames, $frames->{next} = ($frames->{next} // -1) + 2, $path);
}

# An application that echoes, and the process that does.
sub lines {
    my ($frames, $path) = @_;
    my $tunnel = open_to($frames, $path // '/lines');
    return ($tunnel, echoes($tunnel, 'one'));
}

sub echoes {
    my ($tunnel, $word) = @_;
    $tunnel->write("$word\n");
    return $tunnel->line =~ /^(\d+) $word$/ ? $1 : undef;
}

sub get {
    my ($frames, $path) = @_;
    $frames->request($frames->{next} = ($frames->{next} // -1) + 2, $path);
    return $frames->response($frames->{next});
}

sub start {
    return Howdah::Test::Server->start(app => $app, options => ['--workers', 3, '--max-upgrades', 2, @pages, @_]);
}

sub ends {
    my $server = start('--request-timeout', '1s');
    my $frames = Howdah::Test::Frames->new($server);
    is get($frames, '/')->{status}, 200, 'there is a connection';
    my $open = $server->descriptors;

    my ($first, $pid) = lines($frames);
    my ($second) = lines($frames);
    is open_to($frames, '/lines')->status, 503, 'one more than may be';
    come_to($server, 'open 2 limit 2 total 2 refused 1');
    sleep 1.5;
    ok echoes($first, 'two'), 'the time for requests is none of its';
    $first->reset;
    ok $server->wait_for_log(qr/the client of $pid has left/), 'a client that breaks it off is heard of';
    come_to($server, 'open 1 limit 2 total 2 refused 1');
    ok echoes($second, 'three'), 'the other one goes on';
    ($first, $pid) = lines($frames);
    kill KILL => $pid;
    is $first->rest, '', 'a worker that is killed: nothing of ours';
    is $first->broken, undef, '... and the end';
    come_to($server, 'open 1 limit 2 total 3 refused 1');

    my $deaf = open_to($frames, '/deaf');
    is $deaf->status, 200, 'an application that does not listen';
    $deaf->reset;
    is open_to($frames, '/lines')->status, 503, '... keeps its place after its client has left';
    ok $server->wait_for_log(qr/it looks up/), '... until it notices';
    come_to($server, 'open 1 limit 2 total 4 refused 2');

    my $other = Howdah::Test::Frames->new($server);
    (undef, $pid) = lines($other);
    close $other->socket;
    ok $server->wait_for_log(qr/the client of $pid has left/), 'a connection that ends is the end of its streams';
    $second->shut;
    is $second->rest, '', 'the end of the client is that of the application';
    is $second->broken, undef, '... in order';

    ok $server->wait_until(sub { $server->descriptors <= $open }, 10), 'no descriptor is left behind'
        or diag $server->descriptors . " of $open";
    close $frames->socket;
    is $server->stop, 0, 'it stops';
    return;
}

# More than a client may break off at once of what has no answer yet, and as fast as it can: what comes back in each second
# must not make up for it.
sub breaking_off {
    my $server = Howdah::Test::Server->start(app => $app, options => ['--workers', 3, '--max-upgrades', 100]);
    my $frames = Howdah::Test::Frames->new($server);
    is get($frames, '/')->{status}, 200, 'there is a connection';
    my $open = $server->descriptors;
    my $had  = 0;
    for (1 .. 900) {
        my ($tunnel, $pid) = lines($frames);
        $pid && $tunnel->reset or last;
        $had++;
    }
    is $had, 900, 'who breaks off what it had does not only make work';
    is get($frames, '/')->{status}, 200, '... and has other requests answered';
    ok $server->wait_until(sub { $server->descriptors <= $open }, 10), '... and leaves no descriptor behind'
        or diag $server->descriptors . " of $open";
    close $frames->socket;
    is $server->stop, 0, 'it stops';
    return;
}

sub slowness {
    my $server = start();
    my $frames = Howdah::Test::Frames->new($server);
    my $before = $server->memory;
    my $flood  = open_to($frames, '/flood');
    is $flood->status, 200, 'a client that reads slowly';
    is get($frames, '/')->{status}, 200, '... has its other streams';
    sleep 1;
    cmp_ok $server->memory - $before, '<', 8192, '... and costs no memory';
    unlike $server->log, qr/all is said/, '... the application waits';
    is length $flood->rest, 320 * 65536, '... and has all';

    $before = $server->memory;
    my $later = open_to($frames, '/later');
    is $later->status, 200, 'an application that reads slowly';
    my $most = 0;
    for (1 .. 320) {
        $later->write('x' x 65536);
        my $now = $server->memory - $before;
        $most = $now if $now > $most;
    }
    cmp_ok $most, '<', 8192, '... costs no memory';
    $later->shut;
    is $later->rest, 320 * 65536, '... and has all';
    is_deeply [$frames->goaways], [], 'nobody was cut off';
    close $frames->socket;
    is $server->stop, 0, 'it stops';
    return;
}

# As many of so many bytes as the windows let out, which are waited for as long as anything comes in that time.
sub pour {
    my ($frames, $stream, $bytes, $patience) = @_;
    my $left = $bytes;
    while ($left > 0) {
        my $length = min($left, 16_000, $frames->window($stream));
        if ($length > 0) {
            $frames->send('DATA', 0, $stream, 'x' x $length);
            $left -= $length;
        }
        else { $frames->next_frame($patience) or last }
    }
    return $bytes - $left;
}

sub deafness {
    my $server = Howdah::Test::Server->start(app => $app, options => ['--workers', 8, '--graceful-timeout', '1s']);
    my $frames = Howdah::Test::Frames->new($server);
    for (1 .. 6) {
        my $tunnel = open_to($frames, '/deaf-for-long');
        is $tunnel->status, 200, 'an application that does not listen';
        cmp_ok pour($frames, $tunnel->{stream}, 1 << 30, 0.5), '>', 256 << 10,
            '... is sent as much as its windows take';
    }
    my $stream = $frames->{next} += 2;
    $frames->request($stream, '/', method => 'POST', open => 1);
    is pour($frames, $stream, 1_000_000, 5), 1_000_000, '... which stops no upload';
    $frames->send('DATA', LAST, $stream, '');
    is $frames->response($stream)->{status}, 200, '... that another worker answers';
    close $frames->socket;
    is $server->stop, 0, 'it stops';
    return;
}

# Clients whose windows are closed, and applications that are gone.
sub unread {
    for my $case (['ends its side', '60s', 0], ['does nothing', '1s', 3]) {
        my ($what, $timeout, $kept) = @$case;
        my $server = start('--write-timeout', $timeout, '--min-send-rate', 0);
        my $before = $server->descriptors_at_rest;
        my @tunnels;
        for (1 .. 3) {
            my $frames = Howdah::Test::Frames->new($server, settings => {4 => 0});
            push @tunnels, open_to($frames, '/lines');
            $tunnels[-1]->write("one\n");
            $tunnels[-1]->shut;
            is $tunnels[-1]->status, 200, "a client that opens no window and $what";
            my $is_through = sub { counts($server) =~ /^open 0 / };
            ok $server->wait_until($is_through, 10), '... whose application is through';
            $frames->shut if !$kept;
        }
        ok $server->wait_until(sub { $server->descriptors <= $before + $kept }, 10), '... keeps nothing'
            or diag $server->descriptors . " of $before";
        ok $_->is_closed, '... and hears of the end' for @tunnels;
        close $_->frames->socket for @tunnels;
        is $server->stop, 0, 'it stops';
    }
    return;
}

# A client that takes nothing of what an application says, at the end of the server, or of its worker and then its own.
sub stalled {
    for my $is_killed (0, 1) {
        my @options = ('--write-timeout', 0, '--min-send-rate', 0, '--graceful-timeout', '1s');
        my $server  = start(@options, '--access-log', '-', '--access-log-format', 'line of %U');
        my $before  = $server->descriptors_at_rest;
        my $frames  = Howdah::Test::Frames->new($server, settings => {4 => 2**31 - 1});
        is open_to($frames, '/flood')->status, 200, 'an application that says more than its client takes';
        sleep 1;
        if ($is_killed) {
            kill KILL => $server->workers;
            ok $server->wait_for_log(qr/worker died/), '... and is killed';
            close $frames->socket;
            ok $server->wait_until(sub { $server->descriptors <= $before }, 10), '... leaves nothing behind its client'
                or diag $server->descriptors . " of $before";
        }
        is $server->stop, 0, 'it stops';
        unlike $server->log, qr/all is said/;
        like $server->log, qr{^line of /flood$}m, '... and the access log has its line';
    }
    return;
}

sub life {
    my $server  = start();
    my $frames  = Howdah::Test::Frames->new($server);
    my ($child) = lines($frames, '/child');
    come_to($server, 'open 0 limit 2 total 1 refused 0');
    ok echoes($child, 'two'), 'a process that the application has left has it for longer';
    my ($tunnel, $pid) = lines($frames);
    $server->signal('HUP');
    ok $server->wait_for_log(qr/requests go to the new generation/), 'a reload';
    is echoes($tunnel, 'two'), $pid, '... after which it goes on';
    $server->signal('TERM');
    ok $server->wait_until(sub { $frames->next_frame(0.1); $frames->goaways }), 'a stop is told';
    is echoes($tunnel, 'three'), $pid, '... after which it goes on';
    $_->shut for $tunnel, $child;
    is $_->rest, '', '... to its end' for $tunnel, $child;
    ok $frames->is_closed, '... and that of the connection';
    is $server->wait_for_exit(15), 0, 'then the server ends';

    $server = start('--graceful-timeout', '1s');
    $frames = Howdah::Test::Frames->new($server);
    ($tunnel) = lines($frames);
    my $begin = time;
    is $server->stop, 0, 'a stop';
    cmp_ok time - $begin, '<', 15, '... gives it its time and no more';

    my $operator = Howdah::Test::Operator->new;
    $server = start($operator->options);
    $frames = Howdah::Test::Frames->new($server);
    ($tunnel, $pid) = lines($frames);
    my $old = $operator->pid;
    my ($status, undef, $err) = $operator->ask('upgrade');
    is $status, 0, 'an upgrade' or diag $err;
    is(
        Howdah::Test::Client->ask($server, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")->{status}, 200,
        '... after which others are served'
    );
    is echoes($tunnel, 'two'), $pid, '... and it goes on';
    $tunnel->shut;
    ok $tunnel->is_closed, '... to its end';
    ok $operator->wait_for_end($old), 'then the old process leaves';
    return;
}

Howdah::Test::Tls::either_way(sub {
    subtest ends         => \&ends;
    subtest breaking_off => \&breaking_off;
    subtest slowness     => \&slowness;
    subtest deafness     => \&deafness;
    subtest unread       => \&unread;
    subtest stalled      => \&stalled;
    subtest life         => \&life;
});

# Each of these streams is had by a process that its worker has left behind.
subtest 'no descriptor is left' => sub {
    my $server = Howdah::Test::Server->start(
        command =>
            ['sh', '-c', 'ulimit -n 80; exec "$@"', 'sh', howdah_bin(), '--listen', '127.0.0.1:0', '--workers', 2],
        options => ['--max-upgrades', 2, @pages],
        app     => $app,
    );
    my $frames = Howdah::Test::Frames->new($server);
    my @tunnels;
    for (1 .. 80) {
        push @tunnels, open_to($frames, '/child');
        last if $tunnels[-1]->status != 200;
    }
    cmp_ok scalar(@tunnels), '>', 8, 'some have a stream';
    is $tunnels[-1]->status, 503, '... and who comes last is to come again';
    is get($frames, '/')->{status}, 200, '... others are served';
    unlike $server->log, qr/the application failed/, '... no application is to blame';
    ok $server->wait_for_log(qr/no descriptor is left/), '... the log says why';
    ok echoes($tunnels[0], 'two'), '... those that are there go on';
    $_->shut for @tunnels;
    is $tunnels[0]->rest, '', '... to their end';
    my ($later) = lines($frames);
    is $later->status, 200, '... and make room';
    close $frames->socket;
    is $server->stop, 0, 'it stops';
};

done_testing;
