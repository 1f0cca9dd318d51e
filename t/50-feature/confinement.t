# The front gives up what it does not need once it serves; zygote and workers, and what comes after a reload or an
# upgrade, have all the rights of whoever started the server.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Command qw(howdah_bin);
use Howdah::Test::File qw(read_if_any);
use Howdah::Test::Operator;
use Howdah::Test::Server;
use IO::Socket::INET;
use POSIX ();
use Test::More;

my $APP = <<'PSGI';
use IO::Socket::INET;
my %do = (
    '/'        => sub { $$ },
    '/run'     => sub { my $out = `echo from a program`; "$?:$out" },
    '/write'   => sub { open my $out, '>', "$ENV{SCRATCH}/written" or return "no: $!"; print {$out} 'x'; 'written' },
    '/connect' => sub { IO::Socket::INET->new("127.0.0.1:$ENV{PEER}") ? 'connected' : "no: $@" },
    '/stuck'   => sub { select undef, undef, undef, 0.05 for 1 .. 10_000 },
);
sub { [200, [], [$do{$_[0]{PATH_INFO}}->()]] };
PSGI
my $peer = IO::Socket::INET->new(Listen => 50, LocalAddr => '127.0.0.1') or die $!;
$ENV{PEER} = $peer->sockport;

my @RIGHTS = qw(NoNewPrivs Seccomp CapPrm CapEff CapBnd CapAmb);

# Those of a process, or of one of its threads.
sub rights {
    my ($pid, $thread) = @_;
    open my $in, '<', "/proc/$pid" . ($thread ? "/task/$thread" : '') . '/status' or return {};
    my %all = map { /^(\w+):\s+(\S+)/ ? ($1 => $2) : () } <$in>;
    return {map { $_ => $all{$_} } grep { defined $all{$_} } @RIGHTS};
}

my $OURS = rights($$);
my $ROOT = $> == 0;
no warnings 'portable';    # numbers of 64 bits
my $FRONT = {
    %$OURS,
    NoNewPrivs => 1,
    (defined $OURS->{Seccomp} ? (Seccomp => 2) : ()),
    map({ $_ => sprintf '%016x', $ROOT ? hex($OURS->{$_}) & 0x22 : 0 } qw(CapPrm CapEff)),  # CAP_DAC_OVERRIDE, CAP_KILL
    ($ROOT ? (CapBnd => '0' x 16, CapAmb => '0' x 16) : ()),
};

sub ask {
    my ($server, $path) = @_;
    return Howdah::Test::Client->ask($server, "GET $path HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
}

# Whether that process runs, or was stopped: one that has ended and nobody has waited for does not.
sub lives {
    my $pid = shift;
    return read_if_any("/proc/$pid/stat") =~ /\) [^ZX] /;
}

sub children {
    my ($parent, $title) = @_;
    my @found;
    for my $file (glob '/proc/[0-9]*/stat') {
        open my $in, '<', $file or next;
        my ($pid, $of) = (<$in> // '') =~ /^(\d+) \(.*\) [^Z] (\d+)/s or next;
        next if $of != $parent;
        open my $line, '<', "/proc/$pid/cmdline" or next;
        push @found, $pid if join(' ', split /\0/, <$line> // '') =~ $title;
    }
    return @found;
}

sub is_confined {
    my ($pid, $name) = @_;
    opendir my $dir, "/proc/$pid/task" or die $!;
    my @threads = grep { /^\d/ } readdir $dir;
    is_deeply rights($pid, $_), $FRONT, "$name, thread $_" for @threads;
    return cmp_ok scalar @threads, '>=', 2, '... which are several';
}

my $operator = Howdah::Test::Operator->new;
my $dir      = $operator->dir;
local $ENV{SCRATCH} = $dir;

subtest 'the front is confined, and nobody else' => sub {
    my $server = Howdah::Test::Server->start(app => $APP, options => ['--workers', 2, '--front-threads', 2]);
    is_confined($server->pid, 'the front');
    my @launchers = $server->launchers;
    is_deeply [map { rights($_) } @launchers], [$OURS, $OURS], 'the launchers are as free as we are';
    is_deeply rights($_), $OURS, "$_ too" for $server->processes('zygote'), $server->workers;
    like ask($server, '/run')->{body}, qr/^0:from a program$/, 'the application runs programs';
    is ask($server, '/write')->{body}, 'written', '... writes files';
    is ask($server, '/connect')->{body}, 'connected', '... and connects to others';
    is $server->stop, 0, 'a clean end';
    is_deeply [grep { lives($_) } @launchers], [], '... of the launchers before it';
};

subtest 'reload, the death of the zygote and an upgrade' => sub {
    my @options = ('--workers', 2, $operator->options);
    my $server  = Howdah::Test::Server->start(app => $APP, options => \@options, env => {SCRATCH => $dir});
    my $front   = $server->pid;
    is + ($operator->ask('reload'))[0], 0, 'reload';
    my ($zygote) = $server->processes('zygote');
    kill KILL => $zygote;
    ok $server->wait_until(sub { ($operator->status->{pools}[0]{zygote} // $zygote) != $zygote }), 'a new zygote';
    is_deeply rights($operator->status->{pools}[0]{zygote}), $OURS, '... which is free';

    my @launchers = $server->launchers;
    is + ($operator->ask('upgrade'))[0], 0, 'upgrade';
    my $successor = $operator->pid;
    isnt $successor, $front;
    is_confined($successor, 'the new front');
    ok $operator->wait_for_end($front), 'the old one ends';
    ok $server->wait_until(sub {
        !grep { kill 0, $_ } @launchers;
        }),
        '... with its launchers';
    is_deeply [map { rights($_->{pid}) } @{$operator->status->{workers}{list}}], [$OURS, $OURS], 'free workers';
    is + ($operator->ask('stop'))[0], 0;
    ok !-e $operator->pid_file, 'the pid file is gone';
};

subtest 'its files' => sub {
    my ($logs, $elsewhere, $spool) = map { "$dir/$_" } qw(logs elsewhere spool);
    mkdir $_ or die $! for $logs, $elsewhere, $spool;
    my @options = ('--workers', 1, '--error-log', "$logs/error", '--access-log', "$logs/access", '--spool-dir', $spool);
    my $server  = Howdah::Test::Server->launch(
        app     => $APP,
        options => [@options, '--socket', "$dir/sock"],
        env     => {HOWDAH_LOG => 'debug'},
    );
    ok $server->wait_until(sub { read_if_any("$logs/error") =~ /serving/ }), 'the error log';
    my $at    = "$dir/sock";
    my $first = Howdah::Test::Client->ask($at, "GET / HTTP/1.0\r\n\r\n");
    like $first->{body}, qr/^\d+$/;
    for my $name (qw(error access)) { rename "$logs/$name", "$logs/$name.1" or die $! }
    $server->signal('USR1');
    ok $server->wait_until(sub { -e "$logs/error" && -e "$logs/access" }), 'rotated';
    Howdah::Test::Client->ask($at, "GET /rotated HTTP/1.0\r\n\r\n");
    ok $server->wait_until(sub { read_if_any("$logs/access") =~ m{GET /rotated} }), '... and written to';

SKIP: {
        skip 'the kernel has no Landlock', 5 if read_if_any("$logs/error.1") !~ /the front is confined: .*Landlock/;
        rename $logs, "$dir/before" or die $!;
        symlink $elsewhere, $logs or die $!;
        $server->signal('USR1');
        ok $server->wait_until(
            sub { read_if_any("$dir/before/error") =~ /cannot open the error log .* Permission denied/ }),
            'another directory is closed to it';
        like read_if_any("$dir/before/error"), qr/though the rights of \Q$logs\E allow it: .* howdah upgrade gives it/,
            '... which it is told';
        ok !-e "$elsewhere/error", '... and stays empty';
        rmdir $spool && mkdir $spool or die $!;
        my $upload = Howdah::Test::Client->new($at);
        $upload->write("POST / HTTP/1.0\r\nContent-Length: 2000000\r\n\r\n" . 'x' x 2_000_000);
        is $upload->response->{status}, 503, 'one that was made anew, too';
        ok $server->wait_until(sub {
            read_if_any("$dir/before/error") =~
                /cannot store a request body: .* though the rights of \Q$spool\E allow it/;
            }),
            '... as the log says';
    }
    is $server->stop, 0;
    ok !-e $at, 'the socket is removed in the end';
};

subtest 'a log at /dev/stdout, be that a file or a pipe' => sub {
    my $server = Howdah::Test::Server->start(app => $APP, options => ['--access-log', '/dev/stdout']);
    ask($server, '/');
    ok $server->wait_for_log(qr/"GET /), 'a file';
    is $server->stop, 0;
    my @command = ('sh', '-c', 'exec "$@" | cat', 'sh', howdah_bin(), '--listen', "$dir/std", '--pid', "$dir/std.pid");
    my $piped   = Howdah::Test::Server->start(app => $APP, command => [@command, '--access-log', '/dev/stdout']);
    Howdah::Test::Client->ask("$dir/std", "GET /piped HTTP/1.0\r\n\r\n");
    ok $piped->wait_for_log(qr{"GET /piped}), 'a pipe';
    open my $in, '<', "$dir/std.pid" or die $!;
    kill INT => <$in>;
    is $piped->wait_for_exit, 0;
};

# Runs what follows it under a filter that ends whoever calls one of these, as systemd's SystemCallFilter= does.
my $KILLED_FOR = <<'PERL';
my @calls = split /,/, shift;
my $load = pack 'SCCL', 0x20, 0, 0, 0;
my @tests = map { pack 'SCCL', 0x15, 0, 1, $_; } @calls;
my $code = join '', $load, map({ $_, pack('SCCL', 6, 0, 0, 0x80000000) } @tests), pack('SCCL', 6, 0, 0, 0x7fff0000);
my $program = pack 'Sx![P]P', length($code) / 8, $code;
my $prctl = shift;
syscall($prctl, 38, 1, 0, 0, 0) == 0 && syscall($prctl, 22, 2, $program) == 0 or die "no filter: $!";
exec @ARGV or die $!;
PERL

subtest "a filter of somebody else's that ends whoever confines himself" => sub {
    my $machine = (POSIX::uname())[4];
    my %numbers = (x86_64 => [126, 317, 157], aarch64 => [91, 277, 167]);    # capset, seccomp, prctl
    my ($capset, $seccomp, $prctl) = @{$numbers{$machine} // plan skip_all => "the numbers of calls on $machine"};
    my $landlock = 444;
    for my $case (
        [[$landlock, $seccomp], qr/confined: capabilities dropped, no_new_privs$/m],
        [[$capset], qr/confined: no_new_privs, .*seccomp$/m],
        )
    {
        my ($calls, $measures) = @$case;
        my @filter = ($^X, '-e', $KILLED_FOR, join(',', @$calls), $prctl);
        my $server = Howdah::Test::Server->start(
            app     => $APP,
            command => [@filter, howdah_bin(), qw(--listen 127.0.0.1:0 --workers 1 --log-level debug)],
        );
        like $server->log, $measures, 'keeps it from that, and not from serving';
        like $server->log, qr/INFO .* a filter of system calls refuses it/, 'as the log tells';
        like ask($server, '/')->{body}, qr/^\d+$/;
        is $server->stop, 0;
    }
};

subtest 'the command of a piped log' => sub {
    my $file   = "$dir/piped";
    my $server = Howdah::Test::Server->start(
        app     => $APP,
        options => ['--workers', 1, '--access-log', "|echo begun >>$file; exec cat >>$file"],
    );
    my $lines = sub {
        my $pattern = shift;
        open my $in, '<', $file or return 0;
        scalar grep { /$pattern/ } <$in>;
    };
    ask($server, '/');
    ok $server->wait_until(sub { $lines->('GET /') == 1 }), 'lines arrive';
    my ($cat) = children($server->pid, qr/^cat$/);
    is_deeply rights($cat), $OURS, 'it is free';
    kill KILL => $cat;
    ok $server->wait_until(sub { ask($server, '/'); $lines->('begun') == 2 }), 'it is started again';
    is $server->stop, 0;
};

subtest '--no-confine' => sub {
    my $own    = Howdah::Test::Operator->new;
    my $server = Howdah::Test::Server->start(app => $APP, options => ['--no-confine', '--workers', 1, $own->options]);
    is_deeply rights($server->pid), $OURS, 'the front keeps its rights';
    is scalar($server->launchers), 0, 'and needs no launcher';
    is + ($own->ask($_))[0], 0, $_ for 'reload', 'upgrade', 'stop';
};

subtest 'workers of another user' => sub {
    plan skip_all => 'only root can become somebody else' if !$ROOT || !defined getpwnam 'nobody';
    my $own     = Howdah::Test::Operator->new;
    my @options = ('--workers', 1, '--user', 'nobody', '--request-timeout', '500ms', $own->options);
    my $server  = Howdah::Test::Server->launch(options => [@options, '-e', $APP]);
    $server->wait_for_log(qr/serving/);
    is ask($server, '/stuck')->{status}, 504, 'one is stuck';
    ok $server->wait_for_log(qr/killed as asked/), '... and the front may kill it';
    ok $server->wait_until(sub { ($own->status->{workers}{list}[0] // {})->{memory} }), '... and knows its memory';
    is $server->stop, 0;
};

done_testing;
