# An application that starts threads of its own: they have copies of what the worker has, and no part in its requests.
use strict;
use warnings;
use lib 't/lib';

use Config;
use Howdah::Test::Client;
use Howdah::Test::Server;
use Test::More;

plan skip_all => 'this perl has no threads' if !$Config{useithreads};
my $server = Howdah::Test::Server->start(options => ['--workers', 1], app => <<'PSGI');
use threads;
use Thread::Queue;
my %do = (
    pid   => sub { [200, [], [$$]] },
    join  => sub { [200, [], [threads->create(sub { 6 * 7 })->join]] },
    input => sub {
        my $in = shift->{'psgi.input'};
        my $length = threads->create(sub { local $/; length <$in> })->join;
        [200, [], [$length . substr join('', <$in>), 0, 3]];
    },
    # It goes on to read when the memory of its request is another one's.
    later => sub {
        my $in = shift->{'psgi.input'};
        our ($go, $got) = map { Thread::Queue->new } 1, 2;
        threads->create(sub { $go->dequeue; read $in, my $bytes, 300_000; $got->enqueue(join '', sort keys %{{map { $_ => 1 } split //, $bytes}}) })->detach;
        [200, [], ['begun']];
    },
    now    => sub { our ($go, $got); $go->enqueue(1); [200, [], [$got->dequeue]] },
    writer => sub { sub {
        my $writer = shift->([200, []]);
        my $error = threads->create(sub { eval { $writer->write('by a thread'); 1 } ? 'written' : $@ })->join;
        $writer->write("its own, $error");
        $writer->close;
    } },
    closer => sub { sub {
        my $writer = shift->([200, []]);
        my $error = threads->create(sub { eval { $writer->close; 1 } ? 'closed' : $@ })->join;
        $writer->write("open, $error");
    } },
    io => sub { my $io = shift->{'psgix.io'}; [200, [], [threads->create(sub { eval { print {$io} 'x'; 1 } ? 'printed' : $@ })->join]] },
    inform => sub { my $env = shift; [200, [], [threads->create(sub { eval { $env->{'psgix.informational'}->(103, []); 1 } ? 'said' : $@ })->join]] },
    many   => sub { [200, [], [join ' ', map { $_->join } map { my $n = $_; threads->create(sub { $n }) } 1 .. 5]] },
);
sub { my $env = shift; $do{substr $env->{PATH_INFO}, 1}->($env) };
PSGI

sub ask {
    my ($name, $body) = (@_, '');
    my $head = "POST /$name HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: ";
    return Howdah::Test::Client->ask($server, $head . length($body) . "\r\n\r\n$body")->{body};
}

my $pid = ask('pid');
for my $case (
    ['join', '', qr/\A42\z/, 'one that is waited for'],
    ['many', '', qr/\A1 2 3 4 5\z/, 'several at a time'],
    ['input', 'abc' x 10, qr/\A30/, 'it reads a body'],
    ['input', 'abc' x 100_000, qr/\A300000/, '... that lies in shared memory'],
    ['input', 'abc' x 700_000, qr/\A2100000/, '... or in a file'],
    ['writer', '', qr/\Aits own, a response is the business of the thread that serves the request/, 'a writer'],
    ['closer', '', qr/\Aopen, a response is the business of the thread that serves the request/, '... that it closes'],
    ['io', '', qr/\Apsgix\.io: the connection of that request is no longer at hand/, 'the connection'],
    ['inform', '', qr/\Athe connection is the business of the thread that serves the request/, 'an interim response'],
    )
{
    my ($name, $body, $expected, $what) = @$case;
    like ask($name, $body), $expected, $what;
}
is ask('later', 'x' x 300_000), 'begun', 'a thread that goes on after its request';
like ask('input', 'y' x 300_000), qr/\A300000/, '... while another one has the memory of its body';
is ask('now'), 'x', '... still has the body of its own';
is ask('pid'), $pid, 'all of it was done by one worker';
is $server->stop, 0, 'the server has stopped';

subtest 'one that runs since before the fork' => sub {
    my $other = Howdah::Test::Server->start(options => ['--workers', 1, '--max-requests', 1], app => <<'PSGI');
use threads;
my $thread = threads->create(sub { sleep 600 });
select undef, undef, undef, 0.2; # perl 5.36 can crash where one is detached while it begins
$thread->detach;
sub { [200, [], [$$]] };
PSGI
    my $begin  = time;
    my %served = map { Howdah::Test::Client->ask($other, "GET / HTTP/1.0\r\n\r\n")->{body} => 1 } 1 .. 4;
    is scalar(keys %served), 4, 'workers that have ended are replaced';
    cmp_ok time - $begin, '<', 4, '... at once, not when the front has noticed by itself';
};

done_testing;
