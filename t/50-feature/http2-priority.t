# The more urgent response of a connection goes first (RFC 9218), whatever else happens to the server, to a worker or to a stream
# while the client takes nothing; and nobody is left waiting for a turn.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Frames;
use Howdah::Test::Operator;
use Howdah::Test::Server;
use Howdah::Test::Tls;
use Test::More;
use Time::HiRes qw(sleep);

use constant {SIZE => 1_000_000, PART => 300_000, WIDE => 2**31 - 1, INTERNAL_ERROR => 2, CANCEL => 8};

# Sixteen servers. None has files for responses: while one is read for an urgent response, others go on.
alarm 450;

my $app = sprintf <<'PSGI', SIZE, PART;
my ($size, $part) = (%d, %d);
my %%do = (
    '/whole' => sub { $_[0]->([200, [], ['x' x $size]]) },
    '/file'  => sub { open my $file, '+>', undef or die $!; truncate $file, $size; $_[0]->([200, [], $file]) },
    '/grows' => sub {
        my $writer = $_[0]->([200, []]);
        $writer->write('x' x $part);
        warn "$$ has written\n";
        sleep 60;
    },
);
sub { my $env = shift; return sub { $do{$env->{PATH_INFO}}->(@_) } };
PSGI

# What three streams ask for. 7 is the urgent one.
my %BEHIND = (1 => ['/whole', 'u=5'], 3 => ['/file', 'u=5'], 5 => ['/whole', 'u=7']);

sub kill_worker {
    my $server = $_[2];
    ok $server->wait_for_log(qr/has written/), 'it has written';
    kill KILL => $server->log =~ /(\d+) has written/;
    ok $server->wait_for_log(qr/worker died/), 'it is dead';
    return sleep 0.5;
}

# What happens; what the urgent stream asks for; whether it is through first, last or never, whereas the others may be in any order,
# since who has nothing to say for a moment lets less urgent ones go on; what is done by operator, client and server; the window of a stream.
my @CASES = (
    ['nothing', '/whole', 0, sub { }],
    ['a reload', '/whole', 0, sub { is + ($_[0]->ask('reload'))[0], 0, 'done' }],
    ['an upgrade', '/whole', 0, sub { is + ($_[0]->ask('upgrade'))[0], 0, 'done' }],
    ['a stop', '/whole', 0, sub { kill TERM => $_[0]->pid }],
    ['its client breaks it off', '/whole', undef, sub { $_[1]->send('RST_STREAM', 0, 7, pack 'N', CANCEL) }],
    ['its worker is killed', '/grows', 0, \&kill_worker],
    ['its window is closed', '/whole', -1, sub { }, 0],
);

# So many streams have begun, and all workers but so many are through with theirs.
sub waits {
    my ($operator, $streams, $busy) = @_;
    my $state = $operator->status;
    my $works = grep { $_->{state} ne 'idle' } @{$state->{workers}{list}};
    return $state->{connections}{http2_streams} == $streams && $works == $busy;
}

# The streams in the order in which they are through; each time `meanwhile` hears of it.
sub finish {
    my ($frames, $count, $meanwhile) = @_;
    my @order;
    while (@order < $count && (my $frame = $frames->next_frame)) {
        my ($stream, $seen) = ($frame->{stream}, $frames->{seen}{$frame->{stream}});
        next if !$stream || !$seen->{end} && !defined $seen->{reset};
        push @order, $stream;
        $meanwhile->(@order);
    }
    return @order;
}

# All windows are closed, so that what is said of the stream is known before anybody has one.
sub says_so_later {
    my $operator = Howdah::Test::Operator->new;
    my @options  = ($operator->options, '--workers', 5, '--response-buffer', '4m', '--response-spool', 0);
    my $server   = Howdah::Test::Server->start(app => $app, options => \@options);
    my $frames   = Howdah::Test::Frames->new($server, settings => {4 => 0});
    my $open     = sub { Howdah::Test::Frames::frame('WINDOW_UPDATE', 0, $_[0], pack 'N', 1 << 30) };
    $frames->write($open->(0));
    $frames->request($_, '/whole', fields => [['priority', $_ == 7 ? 'u=7' : 'u=5']]) for 1, 3, 5, 7;
    ok $server->wait_until(sub { waits($operator, 4, 0) }), 'four wait for a window';
    $frames->send('PRIORITY_UPDATE', 0, 0, pack 'NA*', 7, 'u=0');
    $frames->send('PING', 0, 0, 'is known');
    1 while ($frames->next_frame // {type => 'PING'})->{type} ne 'PING';
    $frames->write(join '', map { $open->($_) } 1, 3, 5, 7);
    my @order = finish($frames, 4, sub { });
    is $order[0], 7, 'the one that is urgent by now is through first' or diag "@order";
    is length $frames->response($_)->{body}, SIZE, "... all there is of $_" for 1, 3, 5, 7;
    close $frames->socket;
    return is $server->stop, 0, '... it stops';
}

sub everything {
    says_so_later();
    for my $case (@CASES) {
        my ($what, $asks, $place, $do, $window) = @$case;
        my $operator = Howdah::Test::Operator->new;
        my @options  = ($operator->options, '--workers', 5, '--response-buffer', '4m', '--response-spool', 0);
        my $server   = Howdah::Test::Server->start(app => $app, options => \@options);
        my $frames   = Howdah::Test::Frames->new($server, settings => {4 => $window // WIDE});
        my $open     = sub { $frames->send('WINDOW_UPDATE', 0, $_, pack 'N', 1 << 30) for @_ };
        my $ask      = sub { $frames->request($_[0], $_[1], fields => [['priority', $_[2]]]) };
        $open->(0);
        $ask->($_, @{$BEHIND{$_}}) for 1, 3, 5;
        $open->(1, 3, 5) if defined $window;
        ok $server->wait_until(sub { waits($operator, 3, 0) }), "$what: three wait for the client";
        $ask->(7, $asks, 'u=0');
        ok $server->wait_until(sub { waits($operator, 4, $asks eq '/grows' ? 1 : 0) }), '... and the urgent one';
        sleep 0.5;    # that its worker is through is known before the front has looked at what it says
        $do->($operator, $frames, $server);
        my @streams = (1, 3, 5, defined $place ? 7 : ());
        my @order   = finish($frames, scalar(@streams), sub { $open->(7) if defined $window && @_ == 3 });
        is_deeply [sort @order], \@streams, "$what: all are through";
        is $order[$place], 7, "$what: the urgent one in its place" or diag "@order" if defined $place;

        for my $stream (@streams) {
            my ($seen, $is_part) = ($frames->response($stream), $stream == 7 && $asks eq '/grows');
            is length $seen->{body}, $is_part ? PART : SIZE, "... all there is of $stream";
            is $seen->{reset}, $is_part ? INTERNAL_ERROR : undef, '... and how that ends';
        }
        close $frames->socket;
        is $server->stop, 0, '... it stops';
    }
    return;
}

Howdah::Test::Tls::either_way(\&everything);

done_testing;
