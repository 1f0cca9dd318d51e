# What can be replaced counts for more than it has where the kernel ends a process for lack of memory: zygotes, workers, hosts of CGI scripts and
# these. The front, with which the server ends, counts for no more than whoever has started it, and so do launchers and the commands of logs.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Command qw(howdah_bin);
use Howdah::Test::File qw(read_if_any);
use Howdah::Test::Operator;
use Howdah::Test::Ports qw(free_port);
use Howdah::Test::Process qw(EVERY_GENERATION descendants titled);
use Howdah::Test::Scripts;
use Howdah::Test::Server;
use Test::More;

sub score { return read_if_any("/proc/$_[0]/oom_score_adj") =~ s/\n\z//r }

# One that everybody may set, and above which there is room.
my $OURS = 100;
plan skip_all => 'there is no oom_score_adj, or ours is high' if score('self') !~ /^-?\d+$/ || score('self') > $OURS;

my @AS_OURS = ('/bin/sh', '-c', "echo $OURS > /proc/self/oom_score_adj && exec \"\$@\"", 'sh');
my $APP     = 'sub { [200, [], [$$]] }';

sub start {
    my ($options, %wish) = @_;
    my @command = (@AS_OURS, howdah_bin(), '--listen', '127.0.0.1:0');
    return Howdah::Test::Server->start(command => \@command, app => $APP, options => $options, %wish);
}

sub ask {
    my ($server, $path) = @_;
    return Howdah::Test::Client->ask($server, 'GET ' . ($path // '/') . " HTTP/1.0\r\n\r\n")->{body};
}

# What those of a role have in common.
sub scores {
    my ($role, $front) = @_;
    my %found = map { score($_) => 1 } titled($role, descendants(EVERY_GENERATION, $front));
    return join ' ', sort keys %found;
}

# What a worker has if its zygote has that.
sub more { my $figure = shift; return $figure + int(($figure + 9) / 10) }

# Returns the figure of what can be replaced.
sub is_expendable {
    my ($front, $name) = @_;
    is score($front), $OURS, "$name: the front has what it was started with";
    is scores('launcher', $front), $OURS, '... and so have launchers';
    my $figure = scores('zygote', $front);
    cmp_ok $figure, '>', $OURS, '... zygotes have more';
    is scores('worker', $front), more($figure), '... and workers a tenth more than these';
    return $figure;
}

subtest 'a reload and an upgrade add nothing' => sub {
    my $operator = Howdah::Test::Operator->new;
    my $log      = $operator->dir . '/commands';
    my $server =
        start(['--workers', 2, $operator->options, '--access-log', "|echo \$\$ >> $log; exec cat > /dev/null"]);
    my $figure = is_expendable($server->pid, 'at the start');
    cmp_ok score(ask($server)), '==', more($figure), 'a worker that serves has it';
    ok $server->wait_until(sub { read_if_any($log) =~ /\d+\n/ }), 'the command of the log runs';
    is score($_), $OURS, '... as the front does' for read_if_any($log) =~ /(\d+)/;
    is((($operator->ask('reload'))[0]), 0, 'reload');
    is is_expendable($server->pid, 'after the reload'), $figure, '... they have what the others had';
    kill KILL => titled('zygote', descendants(1, $server->pid));
    ok $server->wait_until(sub { $operator->status->{generation} == 3 }), 'the zygote is replaced';
    is is_expendable($server->pid, 'after that'), $figure, '... and so is its figure';
    my ($status, undef, $err) = $operator->ask('upgrade');
    is $status, 0, 'upgrade' or diag $err;
    isnt $operator->pid, $server->pid;
    is is_expendable($operator->pid, 'after the upgrade'), $figure, '... the same once more';
};

subtest 'a worker that becomes the zygote has what it has' => sub {
    my $operator = Howdah::Test::Operator->new;
    my $server   = start(['--workers', 2, '--refork', 5, $operator->options]);
    my $figure   = is_expendable($server->pid, 'before');
    ok $server->wait_until(
        sub { ask($server); titled(qr/zygote .*\(refork 1\)/, descendants(EVERY_GENERATION, $server->pid)) }),
        'it has become that';
    ok $server->wait_until(sub { $operator->status->{generation} > 1 }), 'and has workers';
    ok $server->wait_until(sub { scores('zygote', $server->pid) eq more($figure) }), 'it keeps what it has';
    is scores('worker', $server->pid), more($figure), '... and its workers have what the others had';
};

subtest 'the larger the share of the memory that a front may hold, the larger the figure' => sub {
    my $server = start(['--workers', 1, '--response-buffer', '16384g']);
    is is_expendable($server->pid, 'much of any memory'), 909;
};

subtest 'CGI scripts' => sub {

    # Its host raises it when it has begun.
    my $print = <<'SCRIPT';
my $score;
for (1 .. 500) {
    open my $in, '<', '/proc/self/oom_score_adj' or die;
    $score = <$in>;
    last if $score > $ENV{QUERY_STRING};
    select undef, undef, undef, 0.02;
}
print "Content-Type: text/plain\n\n$score";
SCRIPT
    my $scripts = Howdah::Test::Scripts->new('score.pl' => "#!$^X\n$print");
    for my $mode (qw(exec fork keep)) {
        my $server = start([$scripts->option($mode, 'workers=1')], app => undef, expect => qr/serving .* on /);
        my $figure = scores($mode eq 'keep' ? 'zygote' : 'cgi-host', $server->pid);
        cmp_ok $figure, '>', $OURS, "$mode: what runs them";
        cmp_ok ask($server, "/c/score.pl?$figure"), '==', more($figure), '... and a script has a tenth more';
        is score($server->pid), $OURS, '... the front';
    }
};

subtest '--no-confine, where the front starts them itself' => sub {
    my $server = start(['--workers', 1, '--no-confine']);
    is score($server->pid), $OURS, 'the front';
    cmp_ok scores('zygote', $server->pid), '>', $OURS, 'the zygote';
    is scores('worker', $server->pid), more(scores('zygote', $server->pid)), 'the worker';
};

subtest '--user' => sub {
    plan skip_all => 'only root can become somebody else' if $> != 0 || !defined getpwnam 'nobody';
    for my $more ([], ['--no-confine']) {
        my $server = start(['--workers', 1, '--user', 'nobody', @$more, '-e', $APP], app => undef);
        my $figure = scores('zygote', $server->pid);
        cmp_ok $figure, '>', $OURS, "the zygote, which may not write it any more (@$more)";
        is scores('worker', $server->pid), more($figure), 'the worker';
    }
};

subtest 'plackup, which has forked the zygote' => sub {
    my ($plackup) = grep { -x } map { "$_/plackup" } split /:/, $ENV{PATH};
    plan skip_all => 'there is no plackup' if !$plackup;
    my @command = (@AS_OURS, $^X, $plackup, '-s', 'Howdah', '--host', '127.0.0.1', '--port', free_port(), '-E', 'test');
    is_expendable(
        Howdah::Test::Server->start(command => \@command, app => $APP, options => ['--workers', 1])->pid,
        'plackup'
    );
};

subtest 'where there is no more to be had, or nobody is to be ended' => sub {
    local $AS_OURS[2] = $AS_OURS[2] =~ s/\d+/1000/r;
    my $server = start(['--workers', 1]);
    is score($_), 1000, 'it serves' for $server->pid, ask($server);
    undef $server;
    $AS_OURS[2] =~ s/\d+/-1000/;
    system("($AS_OURS[2]) 2> /dev/null") == 0 or return note 'only CAP_SYS_RESOURCE exempts';
    $server = start(['--workers', 1]);
    is score($_), -1000, 'so is everybody' for $server->pid, ask($server);
};

done_testing;
