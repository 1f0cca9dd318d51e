# A log that nobody reads any more: the pipe to a stopped pager, a named pipe, a stopped command. Requests go on, every
# signal is obeyed, leaving takes no longer than a second for it, and what was lost is told when somebody reads again.
use strict;
use warnings;
use lib 't/lib';

use Fcntl qw(O_NONBLOCK O_RDWR);
use File::Temp ();
use Howdah::Test::Client;
use Howdah::Test::Command qw(howdah_bin run_howdah);
use Howdah::Test::Server;
use POSIX qw(mkfifo);
use Test::More;
use Time::HiRes qw(sleep time);

# Perl itself has something to say before it loads anything: that there is no such locale.
my %env = (LC_ALL => 'xx_YY.UTF-8', PERL_BADLANG => undef);

# 400 lines are more than a pipe holds; 20 such requests say more than the server keeps for later.
my $app = 'sub { warn "x" x 79, "\n" for 1 .. $_[0]{QUERY_STRING} || 0; [200, [], [$$]] }';

# A shell that gives the server another standard error.
my @elsewhere = ('/bin/sh', '-c', 'exec "$@" 2>"$0"');

my %stuck = (
    'standard error' =>
        sub { (fifo => 'log', options => ['--slow-log', 1], command => [@elsewhere, "$_[0]/log", howdah_bin()]) },
    '--error-log'                  => sub { (fifo => 'log', options => ['--error-log', "$_[0]/log"]) },
    '--access-log to a named pipe' => sub { (fifo => 'log', options => ['--access-log', "$_[0]/log"]) },
    '--access-log to a command'    => sub {
        (command_log => "$_[0]/pid", options => ['--access-log', "|echo \$\$ >$_[0]/pid; exec cat >$_[0]/log"])
    },
    '--slow-log-file' => sub { (fifo => 'log', options => ['--slow-log', '1', '--slow-log-file', "$_[0]/log"]) },
);

sub start {
    my ($how) = @_;
    my $dir   = File::Temp->newdir;
    my %with  = $stuck{$how}->($dir);
    my %self  = (dir => $dir, socket => "$dir/socket");
    if ($with{fifo}) {
        mkfifo("$dir/$with{fifo}", 0600) or die "mkfifo: $!";
        sysopen $self{reader}, "$dir/$with{fifo}", O_RDWR | O_NONBLOCK or die $!;
    }
    $self{server} = Howdah::Test::Server->launch(
        app     => $app,
        env     => \%env,
        listen  => undef,
        command => $with{command} // [howdah_bin()],
        options =>
            ['--listen', "unix:$dir/socket", '--workers', 2, '--control', "$dir/control", @{$with{options} // []}]
    );
    $self{server}->wait_until(sub {
        -S $self{socket} && eval { ask(\%self, 1)->{status} }
    });
    if ($with{command_log}) {
        open my $in, '<', $with{command_log} or die $!;
        chomp($self{command} = <$in>);
        kill STOP => $self{command};
    }
    return \%self;
}

sub ask {
    my ($self, $lines, $long) = @_;
    my $target = '/' . 'x' x ($long // 0) . "?$lines";
    return Howdah::Test::Client->ask($self->{socket}, "GET $target HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
}

# Fills the pipe, and the memory behind it: a worker waits for a second at most, once.
sub flood {
    my $self = shift;
    my $end  = time + 30;
    my @odd  = grep { ask($self, 400, 7000)->{status} != 200 } grep { time < $end } 1 .. 20;
    return ok !@odd && time < $end, 'requests go on';
}

sub read_on {
    my $self = shift;
    my $text = '';
    my $end  = time + 10;
    kill CONT => $self->{command} if $self->{command};
    while (($text . $self->{server}->log) !~ $_[0] && time < $end) {
        sleep 0.02 if !$self->{reader} || !sysread $self->{reader}, $text, 1 << 20, length $text;
    }
    return $text;
}

for my $how (sort keys %stuck) {
    for my $signal ('TERM', 'INT') {
        subtest "$how, $signal" => sub {
            my $self = start($how);
            flood($self);
            my ($status, undef, $error) = run_howdah('reload', '--control', "$self->{dir}/control");
            is $status, 0, 'a reload' or diag $error;
            $self->{server}->signal('USR1');
            is ask($self, 1)->{status}, 200, 'USR1';
            my $start = time;
            $self->{server}->signal($signal);
            is $self->{server}->wait_for_exit(10), 0, $signal;
            cmp_ok time - $start, '<', 4, 'in time';
            kill KILL => $self->{command} if $self->{command};
        };
    }
}

subtest 'an upgrade' => sub {
    my $self = start('standard error');
    flood($self);
    my @control = ('--control', "$self->{dir}/control");
    my ($status, undef, $error) = run_howdah('upgrade', @control);
    is $status, 0, 'upgrade' or diag $error;
    is $self->{server}->wait_for_exit(20), 0, 'the old process leaves';
    is ask($self, 0)->{status}, 200, 'the new one serves';
    is((run_howdah('stop', @control))[0], 0, 'and stops');
};

subtest 'an access log that nobody reads: how many lines are lost is told, and it goes on' => sub {
    for my $how (grep { /access/ } sort keys %stuck) {
        my $self   = start($how);
        my $client = Howdah::Test::Client->new($self->{socket});
        my $end    = time + 30;
        for (1 .. 1600) {
            last if time > $end || !$client->write('GET /' . 'x' x 7000 . " HTTP/1.1\r\nHost: x\r\n\r\n");
            last if !$client->response->{status};
        }
        ok $self->{server}->wait_for_log(qr/ERROR front: access log .*: nobody reads it; its lines wait/), "$how: told";
        ok $self->{server}->wait_for_log(qr/ERROR front: access log .*: \d+ lines dropped: /), 'with a number';
        read_on($self, qr/access log .* is written again; lines dropped so far: \d/);
        like $self->{server}->log, qr/WARN  front: access log .* is written again; lines dropped so far: \d+/,
            'the end, too';
        is $self->{server}->stop, 0;
    }
};

subtest 'an access log whose command is not there: it is told while it lasts, and what it has cost' => sub {
    my $dir    = File::Temp->newdir;
    my $server = Howdah::Test::Server->start(
        app     => 'sub { [200, [], []] }',
        options =>
            ['--access-log', '|nonesuch-log', '--control', "$dir/control", '--health-path', '/up', '--workers', 1]
    );
    my $get = sub {
        Howdah::Test::Client->ask($server->port, "GET $_[0] HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    };
    $get->('/') for 1 .. 3;
    my $trouble = qr/access log \|nonesuch-log: the command ended \(exit status: 127\)/;
    ok $server->wait_for_log(qr/ERROR front: $trouble; its lines wait in memory/), 'in the error log';
    for my $later (0, 2.5) {
        sleep $later;
        like + (run_howdah('status', '--control', "$dir/control"))[1],
            qr/^trouble     $trouble; lines wait in memory$/m,
            "howdah status, $later s later";
        like $get->('/up')->{body}, qr/in trouble/, 'the health page';
    }
    unlike $server->log, qr/is written again/, 'no command has read anything';
    is $server->stop, 0;
    like $server->log, qr/ERROR front: 5 lines of the access log are lost, 0 are written/, 'none is lost in silence';
};

subtest 'the loss is told when somebody reads again, and the log goes on' => sub {
    for my $how ('standard error', '--error-log') {
        my $self = start($how);
        flood($self);
        my $text = read_on($self, qr/lines of this log are lost/);
        like $text, qr/ERROR front: \d{2,} lines of this log are lost: they were not taken in time/, $how;
        ask($self, 3);
        like read_on($self, qr/x{79}\n.*x{79}\n/s), qr/worker \d pid \d+ request \S+ GET \S+: x{79}\n/,
            'lines as before';
        is $self->{server}->stop, 0;
    }
};

done_testing;
