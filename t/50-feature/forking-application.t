# An application may fork. Its children are no workers: whatever they do, the parent answers its request and goes on.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Server;
use Test::More;

my $server = Howdah::Test::Server->start(
    options => ['--workers', 1],
    app     => <<'PSGI',
    package Text {
        use overload '""' => sub { my $pid = fork // die; return 'from the child' if !$pid; waitpid $pid, 0; return "$? $$" };
    }
    sub child { my $code = shift; my $pid = fork // die; return $pid if $pid; $code->(); exit 9 }
    my %does = (
        exits    => sub { exit 3 },
        dies     => sub { die "the child is unhappy\n" },
        killed   => sub { kill KILL => $$; sleep 9 },
        TERM     => sub { kill TERM => $$; sleep 9 },
        INT      => sub { kill INT => $$; sleep 9 },
        harakiri => sub { $_[0]{'psgix.harakiri.commit'} = 1; exit 4 },
    );
    my $kept;
    sub {
        my $env = shift;
        my ($what) = $env->{PATH_INFO} =~ m{(\w+)$};
        return [200, [], [`echo $$`]] if $what eq 'shell';
        if ($what eq 'returns') {
            my $pid = fork // die;
            return [200, [], ['from the child']] if !$pid;
            waitpid $pid, 0;
            return [200, [], ["$? $$"]];
        }
        return [200, [], [bless [], 'Text']] if $what eq 'converts';
        if ($what eq 'writes') {
            return sub {
                my $writer = $_[0]->([200, []]);
                waitpid child(sub { $writer->write('from the child') }), 0;
                $writer->write("$? $$");
                $writer->close;
            };
        }
        waitpid child(sub { $does{$what}->($env) }), 0;
        return [200, [], ["$? $$"]];
    };
PSGI
);
my ($worker) = $server->workers;

# What the child does, and the wait status that its parent sees.
my %status = (
    exits    => 3 << 8,
    dies     => 255 << 8,
    killed   => 9,
    TERM     => 15,
    INT      => 2,
    harakiri => 4 << 8,
    returns  => 0,
    writes   => 255 << 8,
    converts => 255 << 8,
);
for my $what (sort keys %status) {
    my $answer = Howdah::Test::Client->ask($server, "GET /$what HTTP/1.1\r\nHost: x\r\n\r\n");
    is $answer->{body}, "$status{$what} $worker", "a child that $what" or diag $answer->{error};
}
is(Howdah::Test::Client->ask($server, "GET /shell HTTP/1.0\r\n\r\n")->{body}, "$worker\n", 'and a command');
is_deeply [$server->workers], [$worker], 'it is the same worker all the time';
ok $server->wait_for_log(qr/the child is unhappy/), 'what a child dies of is logged';

# A child that comes back to where no request is under way: from a hook, and from the handler of an alarm between two requests.
my $hooked = Howdah::Test::Server->start(options => ['--workers', 1], app => <<'PSGI');
use Howdah;
my @ended;
sub come_back { my $pid = fork // die; return if !$pid; waitpid $pid, 0; return push @ended, $? }
Howdah->before_fork(\&come_back);
Howdah->after_fork(sub { $SIG{ALRM} = \&come_back; return come_back() });
sub { alarm 1 if @ended < 3; return [200, [], ["@ended"]] };
PSGI
sub ended { return Howdah::Test::Client->ask($hooked, "GET / HTTP/1.0\r\n\r\n")->{body} }
is ended(), '0 0', 'children that come back from before_fork and after_fork';
my $until = time + 20;
sleep 2 until ended() ne '0 0' || time > $until;
is ended(), '0 0 0', 'a child that comes back from a handler between two requests';

# Children forked while the application is loaded: one comes back to whoever loads it, one dies there.
my $loading = <<'PSGI';
my $parent = $$;
my @ended;
for my $dies (0, 1) {
    my $pid = fork // die;
    if ($pid) { waitpid $pid, 0; push @ended, $? }
    elsif ($dies) { die "a child dies while the application is loaded\n" }
    last if $$ != $parent;
}
sub { [200, [], ["@ended"]] };
PSGI
for my $options ([], ['--no-preload']) {
    my $own = Howdah::Test::Server->start(options => ['--workers', 1, @$options], app => $loading);
    is +Howdah::Test::Client->ask($own, "GET / HTTP/1.0\r\n\r\n")->{body}, '0 65280',
        "children while loading @$options";
    ok $own->wait_for_log(qr/a child of the application failed: .*dies while/), '... which is told';
    is scalar($own->workers), 1;
}

# What an application has set for the end of children when it is loaded, and its worker's answer.
my $discards = <<'PSGI';
$SIG{CHLD} = 'IGNORE';
sub {
    my $pid = fork // die;
    exec 'exit 5;' or die if !$pid;
    return [200, [], [waitpid $pid, 0]];    # until it has ended; then there is nobody to be waited for
}
PSGI
my $reaps = <<'PSGI';
my $status;
$SIG{CHLD} = sub { while (waitpid(-1, 1) > 0) { $status = $? } };
sub {
    undef $status;
    my $pid = fork // die;
    exec 'exit 5;' or die if !$pid;
    my $until = time + 20;
    select undef, undef, undef, 0.05 until defined $status || time > $until;
    return [200, [], [$status >> 8]];
}
PSGI
my $watch = <<'PSGI';
use EV;
sub {
    my $pid = fork // die;
    exec 'exit 5;' or die if !$pid;
    my $status;
    my $child = EV::child $pid, 0, sub { $status = $_[0]->rstatus; EV::break };
    my $late  = EV::timer 10, 0, sub { EV::break };
    EV::run;
    return [200, [], [$status >> 8]];
}
PSGI
my @loaded = ([$discards, -1, 'discarded'], [$reaps, 5, 'waited for by a handler']);
push @loaded, [$watch, 5, 'watched by EV, which has a handler in C'] if eval { require EV };
for my $case (@loaded) {
    my ($app, $answer, $name) = @$case;
    my $own = Howdah::Test::Server->start(options => ['--workers', 1], app => $app);
    is(Howdah::Test::Client->ask($own, "GET / HTTP/1.0\r\n\r\n")->{body}, $answer, $name) for 1, 2;
    my ($killed) = $own->workers;
    kill KILL => $killed;
    ok $own->wait_for_log(qr/signal KILL.* pid=$killed\b/), '... and how its worker ends is known';
    is(Howdah::Test::Client->ask($own, "GET / HTTP/1.0\r\n\r\n")->{body}, $answer, '... and so it is in the next one');
}

done_testing;
