# howdah leaks ends by itself, whatever happens to its workers, to the server or to whoever asked; and what it finds is
# counted from one look to the next.
use strict;
use warnings;
use lib 't/lib';

use Fcntl qw(O_NOCTTY O_NONBLOCK O_RDWR);
use Howdah::Test::Command qw(howdah_bin run_command run_howdah);
use Howdah::Test::Operator;
use Howdah::Test::Server;
use Howdah::Test::Traffic;
use JSON::PP qw(decode_json);
use List::Util qw(sum0);
use Test::More;

my $app = <<'APP';
my @kept;
sub {
    my $path = $_[0]{PATH_INFO};
    return [200, [], [Howdah::XS::is_tracking() ? 'tracks' : 'waits']] if $path eq '/look';
    push @kept, bless [], 'Kept';
    exit 0             if $path eq '/exit';
    kill KILL => $$    if $path eq '/kill';
    sleep 60           if $path eq '/sleep';
    return [200, [], [$$]];
}
APP

sub start {
    my ($workers, @options) = @_;
    my $operator = Howdah::Test::Operator->new;
    my $server =
        Howdah::Test::Server->start(app => $app, options => ['--workers', $workers, @options, $operator->options]);
    return ($operator, $server, '--control', $operator->control);
}

# Begins a look, and returns when the worker notes what is blessed.
sub look {
    my ($server, @more) = @_;
    my $look = Howdah::Test::Traffic->begin('leaks', '--json', @more);
    $server->wait_until(sub { Howdah::Test::Traffic::ask($server, '/look')->{body} eq 'tracks' }) or die 'nobody looks';
    Howdah::Test::Traffic::ask($server, '/');
    return $look;
}

# A terminal of our own, and what is written there: ioctl_tty(2). The numbers are those of most architectures.
sub terminal {
    my ($number, $unlock) = (pack('I', 0)) x 2;
    sysopen my $master, '/dev/ptmx', O_RDWR | O_NOCTTY | O_NONBLOCK or return;
    ioctl $master, 0x40045431, $unlock and ioctl $master, 0x80045430, $number or return;
    return ('/dev/pts/' . unpack('I', $number), sub { sysread $master, my $all, 65_536; return $all =~ s/\r//gr });
}

sub kept {
    return sum0 map { $_->{objects} } grep { $_->{class} eq 'Kept' } @{$_[0]{objects}};
}

subtest 'workers that leave report before they do' => sub {
    for my $case (
        ['a quota', ['--max-requests', 500], sub { Howdah::Test::Traffic::ask($_[1], '/') for 1 .. 560 }],
        ['a reload', [], sub { Howdah::Test::Traffic::ask($_[1], '/'); $_[0]->ask('reload') }],
        [
            'an exit',
            [],
            sub {
                eval { Howdah::Test::Traffic::ask($_[1], '/exit') }
            }
        ],
        ['a stop', [], sub { Howdah::Test::Traffic::ask($_[1], '/'); $_[1]->signal('TERM') }],
        )
    {
        my ($name, $options, $happens)    = @$case;
        my ($operator, $server, @control) = start(1, @$options);
        my $look = look($server, '--seconds', 60, @control);
        $happens->($operator, $server);
        my ($status, $out, $err) = $look->outcome;
        next if $name eq 'a stop' && ok defined $status, 'a stop ends it';
        is $status, 0, $name or diag $err;
        my $report = decode_json($out);
        is @{$report->{notes}}, 1, 'nobody is missing';
        like $report->{notes}[0], qr/^all workers that were asked have left before the end/,
            'but it is said why it is short';
        cmp_ok kept($report), '>=', 2, 'the worker has told';
        cmp_ok $report->{seconds}, '<', 50, 'it has ended early';
    }
};

subtest 'one that is killed is missed, one that is stuck is not waited for' => sub {
    my ($operator, $server, @control) = start(2);
    my $look = look($server, '--seconds', 2, @control);
    eval { Howdah::Test::Traffic::ask($server, '/kill') };
    my ($status, $out, $err) = $look->outcome;
    is $status, 0 or diag $err;
    like decode_json($out)->{notes}[0], qr/^worker \d+ \(pid \d+\) has died before it could tell$/;
    is decode_json($out)->{workers}, 1, 'the other one has told';
};

subtest 'nobody looks twice at the same time; who leaves ends it' => sub {
    my ($operator, $server, @control) = start(1);
    my $look = look($server, '--seconds', 60, @control);
    my (undef, undef, $err) = $operator->ask('leaks', '--seconds', 1);
    like $err, qr/another such command is under way/;
    $look->interrupt;
    $look->outcome;
    my ($status, $out);
    ok $server->wait_until(sub { ($status, $out) = $operator->ask('leaks', '--json', '--seconds', '50ms'); !$status }),
        'the next one may look';
};

subtest 'what an earlier look has found counts, unless it is left out' => sub {
    my ($operator, $server, @control) = start(1);
    my $count = sub {
        my ($status, $out, $err) = Howdah::Test::Traffic->during($server, ['/'], 'leaks', '--json', @control, @_);
        return kept(decode_json($out));
    };
    my $first = $count->('--requests', 20);
    cmp_ok $first, '>=', 20;
    my $second = $count->('--requests', 20);
    cmp_ok $second, '>=', $first + 20, 'both';
    cmp_ok $count->('--requests', 20, '--since-last'), '<', $second, 'only what is new';
};

subtest 'whoever waits at a terminal is told for how long' => sub {
    my ($operator, $server, @control) = start(1);
    my $said = sub { return (run_command(@_, howdah_bin(), 'leaks', '--seconds', '100ms', @control)) };
    is + ($said->())[2], '', 'nobody else';
    my ($terminal, $shown) = terminal() or plan skip_all => "no pseudo terminal: $!";
    my ($status, $out)     = $said->('/bin/sh', '-c', 'exec "$@" 2>"$0"', $terminal);
    is $status, 0;
    unlike $out, qr/noting/, 'the report is by itself';
    is $shown->(), "noting what is blessed for 100ms; a worker that is at a request has 10s more\n";
};

subtest 'mistakes are told with the way out' => sub {
    my ($operator, $server, @control) = start(1);
    my ($status, undef, $err) = $operator->ask('leaks', '--pool', '/shop');
    is $status, 1;
    like $err, qr{no application is mounted at /shop; there is /};
    is + ($operator->ask('leaks', '--requests', 0))[0], 2;
    is + (run_howdah('leaks', '--control', '/nonexistent'))[0], 1;
};

done_testing;
