# NOTIFY_SOCKET: what systemd is told. A socket of the test's own takes the place of systemd's.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Operator;
use Howdah::Test::Server;
use IO::Select;
use IO::Socket::UNIX;
use Socket qw(SOCK_DGRAM);
use Test::More;
use Time::HiRes qw(sleep time);

my $operator = Howdah::Test::Operator->new;
my $dir      = $operator->dir;
my $manager  = IO::Socket::UNIX->new(Local => "$dir/notify", Type => SOCK_DGRAM) or die $!;

# Messages until one matches (it is among them), or nothing comes for five seconds. Pulses are passed over.
sub told {
    my $until = shift;
    my @told;
    while (IO::Select->new($manager)->can_read(5)) {
        recv $manager, my $message, 4096, 0;
        next if $message eq 'WATCHDOG=1';
        push @told, $message;
        last if $message =~ $until;
    }
    return @told;
}

sub write_app {
    open my $out, '>', "$dir/app.psgi" or die $!;
    print {$out} shift;
    return close $out;
}

write_app('sub { [200, [], [$ENV{NOTIFY_SOCKET} // "none"]] }');
my $server = Howdah::Test::Server->start(
    file    => "$dir/app.psgi",
    env     => {NOTIFY_SOCKET => "$dir/notify", WATCHDOG_USEC => 200_000},
    options => ['--workers', 2, $operator->options],
);

subtest 'ready, with a status for people' => sub {
    my ($ready, @rest) = told(qr/READY=1/);
    like $ready, qr/^READY=1\nSTATUS=serving .*app\.psgi with 2 workers, generation 1$/;
    is_deeply \@rest, [], 'and nothing before';
};

subtest 'the watchdog is fed twice in its interval' => sub {
    my ($end, $pulses) = (time + 2, 0);
    while (time < $end) {
        recv $manager, my $message, 4096, 0;
        $pulses++ if $message eq 'WATCHDOG=1';
    }
    cmp_ok $pulses, '>=', 12, "$pulses in two seconds";
};

subtest 'reloading, then ready' => sub {
    my $before = `awk '{print \$1 * 1000000}' /proc/uptime`;
    $server->signal('HUP');
    my ($reloading, $ready) = told(qr/READY=1/);
    my ($at) = $reloading =~ /^RELOADING=1\nMONOTONIC_USEC=(\d+)\nSTATUS=/;
    cmp_ok abs($at - $before), '<', 30_000_000, 'with the time by the monotonic clock';
    like $ready, qr/^READY=1\n.*generation 2$/;
};

subtest 'a reload that fails is over, too, and the status says so' => sub {
    write_app('die "broken\n"');
    $operator->ask('reload');
    my ($reloading, $ready) = told(qr/READY=1/);
    like $ready, qr/^READY=1\n.*generation 2; the last reload failed/;
    write_app('sub { [200, [], []] }');
};

subtest 'a number of workers that changes' => sub {
    $operator->ask('workers', '+1');
    like + (told(qr/STATUS/))[0], qr/^STATUS=.* with 3 workers/;
};

subtest 'an upgrade: the new main process' => sub {
    my $old = $operator->pid;
    $operator->ask('upgrade');
    my @told = told(qr/READY=1/);
    is $told[0], 'MAINPID=' . $operator->pid;
    isnt $operator->pid, $old;
    like $told[1], qr/^READY=1/, 'which says that it is ready';
    is scalar(@told), 2;
    ok $operator->wait_for_end($old);
};

subtest 'stopping' => sub {
    $operator->ask('stop');
    my @told = told(qr/STOPPING/);
    like $told[0], qr/^STOPPING=1\nSTATUS=/;
    is scalar(@told), 1, 'the process that was replaced said nothing at its end';
};

# As many messages as there is room for.
sub fill {
    while (1) {
        my $sender = IO::Socket::UNIX->new(Peer => "$dir/notify", Type => SOCK_DGRAM) or die $!;
        $sender->blocking(0);    # as an argument perl 5.32 does not know it here
        $sender->send('WATCHDOG=1') or return;
    }
}

subtest 'a manager that does not read holds nobody up, and hears later what is still true' => sub {
    write_app('sub { [200, [], ["served"]] }');
    my $again = Howdah::Test::Server->start(
        file    => "$dir/app.psgi",
        env     => {NOTIFY_SOCKET => "$dir/notify", WATCHDOG_USEC => 200_000},
        options => ['--workers', 2, $operator->options],
    );
    my $old    = $operator->pid;
    my $served = sub { return Howdah::Test::Client->ask($again, "GET / HTTP/1.0\r\n\r\n")->{body} };
    told(qr/READY/);

    fill;
    sleep 0.5;
    is $served->(), 'served', 'a request behind pulses';
    $operator->ask('reload');
    $operator->ask('workers', '+1');
    is $served->(), 'served', 'behind a reload and a change of the number of workers';
    my @told = told(qr/STATUS/);
    is scalar(@told), 1;
    like $told[0], qr/^READY=1\nSTATUS=.* with 3 workers, generation 2$/, 'what is true now';

    fill;
    $operator->ask('upgrade');
    my $new = $operator->pid;
    isnt $new, $old, 'an upgrade';
    is $served->(), 'served', 'behind it';
    kill $_, $new for qw(HUP TERM);
    ok $operator->wait_for_end($new), 'a stop';
};

done_testing;
