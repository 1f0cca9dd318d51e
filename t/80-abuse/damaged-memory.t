# A worker writes nonsense into the memory that it shares with the front. The front lives. Where the nonsense matters, it is
# noticed, and the memory replaced together with all workers: requests that wait are served, those that run get 502, and the
# log and the status say so. Where it does not matter nobody notices.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Operator;
use Howdah::Test::Server;
use Test::More;
use Time::HiRes qw(sleep time);

# Where things stand in the header, the queue and a front cell, see xs/wire.h.
my %at    = (slots => 24, slots_at => 64, head => 1152, tail => 1280, idle => 1416);
my $words = sub { "\$segment->write($at{$_[0]}, $_[1])" };

# What every slot's control words, or the attention of the front thread, are made.
my $controls  = sub { "\$segment->write(\$segment->control(\$_), $_[0]) for $_[1];" };
my $attention = '$segment->write($segment->geometry("fronts_at") + 8, ~0, (~0) x 256);';
my $own       = '$segment->control($segment->slot_of(Howdah::XS::index()))';

# What is done, and whether it is noticed; "lost" where it takes away what waits.
my @cases = (
    ['an offset in the header', noticed  => $words->(slots_at => '2**40')],
    ['the number of slots', noticed      => $words->(slots    => '2**40 - 1')],
    ['the head of the queue', noticed    => $words->(head     => '2**47')],
    ['the head, past who waits', noticed => $words->(head     => '3 + ($segment->words(1152, 1))[0]')],
    ['the tail of the queue', noticed    => $words->(tail     => '2**47')],
    [
        'every entry of the queue',
        noticed => '$segment->write($segment->geometry("ring_at"), (65535) x $segment->geometry("ring"))'
    ],
    ['the state of every slot', lost     => $controls->('3 << 60', '0 .. 63')],
    ['all words of every slot', lost     => $controls->('map { int rand 2**62 } 1 .. 16', '0 .. 63')],
    ['counts of its own ring', none      => "my \$at = $own; \$segment->write(\$at + \$_, 524283) for 8, 64;"],
    ['news of slots there are not', none => $attention],
    ['free slots that are done', none    => $controls->('3 << 60', '64 .. 999') . $attention],
    ['who sleeps', none                  => $words->(idle => '(~0) x 16')],
    [
        'what no worker says',
        none => '$segment->write($segment->geometry("workers_at") + 1024, map { int rand 2**62 } 1 .. 800)'
    ],
);

my $operator = Howdah::Test::Operator->new;
my @options  = ('--workers', 2, $operator->options);
my $server   = Howdah::Test::Server->start(file => 't/apps/scribble.psgi', options => \@options);
my ($serial, $damages) = (0, 0);

sub run {
    my $code   = shift;
    my $client = Howdah::Test::Client->new($server);
    $client->write(sprintf "POST /do HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", length $code, $code);
    return $client;
}

# A request that is answered by its name.
sub ask {
    my $name   = "$$-" . 7 * ++$serial;
    my $client = Howdah::Test::Client->asking($server, "/$name");
    return [$client, "$name 0"];
}

sub is_right {
    my ($client, $wanted) = @{$_[0]};
    my $response = $client->response;
    return $response->{status} == 200 && $response->{body} eq $wanted || $_[1] && $response->{status} == 502;
}

for my $case (@cases) {
    my ($what, $effect, $code) = @$case;
    subtest $what => sub {
        my $runs = run('sleep 1.5; "done"');
        my $stay = $effect eq 'none' ? '' : '; sleep 1';    # who goes on at once may run one of those that wait
        my $mad  = run("sleep 0.3; $code$stay");
        sleep 0.1;
        my @wait  = map { ask() } 1 .. 4;
        my $begin = time;
        is scalar(grep { is_right($_, $effect eq 'lost') } @wait), 4,
            'what waits is answered, each with its own response';
        cmp_ok time - $begin, '<', 10, sprintf 'soon, after %.2f s', time - $begin;
        is $runs->response->{status}, $effect eq 'none' ? 200 : 502, 'what runs is lost where all workers are replaced';
        like $mad->response->{status}, qr/^(?:200|500|502)$/;
        ok is_right(ask()), 'and all goes on';
        my ($times) = ($operator->status->{trouble} // '') =~ /^workers have damaged shared memory (\d+) times?, last/;
        is $times // 0, $damages += $effect ne 'none', 'the status says how often';
    };
}

my $found = () = $server->log =~ /written over shared memory: .* It is replaced together with all workers/g;
is $found, $damages, 'the log says each time what was found';
unlike $server->log, qr/panicked/, 'nothing panics';
is $server->stop, 0, 'it was one front all the time, and ends well';

done_testing;
