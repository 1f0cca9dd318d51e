# From the command to processes that serve: what is loaded where, how they are called, and how a start fails.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Command qw(howdah_bin run_command run_howdah);
use Howdah::Test::Server;
use Test::More;

sub get { my ($server, $path) = @_; return Howdah::Test::Client->ask($server, "GET $path HTTP/1.0\r\n\r\n")->{body} }

# Answers of as many workers as there are.
sub of_all {
    my ($server, $count) = @_;
    my %seen;
    $seen{get($server, '/')}++ for 1 .. 10 * $count;
    my @seen = sort keys %seen;
    return @seen;
}

my $who = 'my $loader = $$; sub { select undef, undef, undef, 0.02; [200, [], ["$loader $$ " . rand]] }';

subtest 'the application is loaded once, in the zygote; --no-preload: in each worker' => sub {
    my $server = Howdah::Test::Server->start(app => $who, options => ['--workers', 2]);
    my ($loader, $worker) = split ' ', get($server, '/');
    is_deeply [$server->processes('zygote')], [$loader];
    ok + (grep { $_ == $worker } $server->workers), 'and run in a worker';
    like $server->log, qr/the application is loaded, in \d+\.\d\d s/, 'which the log says';

    $server = Howdah::Test::Server->start(app => $who, options => ['--workers', 2, '--no-preload']);
    ($loader, $worker) = split ' ', get($server, '/');
    is $loader, $worker;
    like $server->log, qr/the zygote is ready, in \d+\.\d\d s; each worker loads the application for itself/,
        'and the log says no more';
    unlike $server->log, qr/the application is (?:being )?loaded/;
};

subtest 'a stack that is too small is told, not overflown' => sub {
    my @howdah = (howdah_bin(), qw(--listen 127.0.0.1:0 --workers 1));
    my ($status, $out, $err) = run_command('sh', '-c', 'ulimit -s 64 && exec "$@"', 'sh', howdah_bin(), '--help');
    is "$status$out", 1, 'whatever is asked for';
    like $err, qr/^howdah: the limit of the stack is 64 KiB, and howdah needs 512: raise it \(ulimit -s, /;
    my @command = ('sh', '-c', 'ulimit -Ss 64 && exec "$@"', 'sh', @howdah);
    my $server  = Howdah::Test::Server->start(app => $who, command => \@command);
    ok get($server, '/'), 'where only the soft limit is so low, that is raised';
};

subtest 'a stack is there from the start, and does not grow when there may be no memory' => sub {
    my $server = Howdah::Test::Server->start(app => $who, options => ['--workers', 1]);
    open my $status, '<', '/proc/' . $server->pid . '/status' or die $!;
    my ($stack) = map { /^VmStk:\s+(\d+) kB/ } <$status>;
    cmp_ok $stack, '>=', 192, "$stack KiB";
    plan skip_all => 'there is no prlimit' if (run_command('prlimit', '--pid', $server->pid, '--stack=65536'))[0];
    ok get($server, '/'), 'where it may not grow any more it serves on';
    is $server->stop, 0, '... and ends as ever';
};

subtest 'a root without /dev/null is told what it lacks' => sub {
    my @bare = ('unshare', '--mount', 'sh', '-c', 'mount -t tmpfs none /dev && exec "$@"', 'sh');
    plan skip_all => 'no such namespace can be had here' if (run_command(@bare, 'true'))[0];
    my ($status, undef, $err) = run_command(@bare, howdah_bin(), qw(--listen 127.0.0.1:0 -e), $who);
    is $status, 1;
    like $err,
        qr{^howdah: cannot open /dev/null: No such file or directory .*; a container or a chroot needs it: mknod}m;
};

subtest 'what whoever started it has done with its signals does not count' => sub {
    my $parent =
        'use POSIX; $SIG{CHLD} = "IGNORE"; sigprocmask(SIG_BLOCK, POSIX::SigSet->new(1 .. 31)) or die; exec @ARGV';
    my @command  = ($^X, '-e', $parent, howdah_bin(), qw(--listen 127.0.0.1:0 --workers 1));
    my $server   = Howdah::Test::Server->start(app => $who, command => \@command);
    my ($worker) = $server->workers;
    kill KILL => $worker;
    ok $server->wait_until(sub { my ($next) = $server->workers; $next && $next != $worker }),
        'it hears of the end of a worker';
    is $server->stop, 0, '... and TERM';
};

subtest 'workers that die idle come back ever later, and at once for a request' => sub {
    my $app    = 'use Howdah; Howdah->after_fork(sub { alarm 1 }); sub { [200, [], [$$]] }';
    my $server = Howdah::Test::Server->start(app => $app, options => ['--workers', 1]);
    ok $server->wait_for_log(qr/the next is started in 12\.8 s/, 60), 'the wait grows';
    my $start = time;
    is + Howdah::Test::Client->ask($server, "GET / HTTP/1.0\r\n\r\n")->{status}, 200, 'a request is served';
    cmp_ok time - $start, '<', 10, '... without that wait';
    is $server->stop, 0;
};

subtest 'a start that cannot have all the workers that it wants is no start' => sub {
    my $app    = 'use Howdah; Howdah->after_fork(sub { exit 7 if $_[0] == 1 }); sub { }';
    my $server = Howdah::Test::Server->launch(app => $app, options => ['--workers', 2]);
    is $server->wait_for_exit, 1;
    like $server->log, qr/^howdah: workers end before they are ready \(exit status 7\)/m;
};

subtest 'a hook that ends the zygote fails the start, and is named' => sub {
    my $app    = 'use Howdah; Howdah->before_fork(sub { exit 4 }); sub { }';
    my $server = Howdah::Test::Server->launch(app => $app, options => ['--workers', 2]);
    is $server->wait_for_exit, 1;
    like $server->log, qr/^howdah: perl ended before it had forked the first workers \(exit status 4\); .*before_fork/m;
};

subtest 'processes say what they are' => sub {
    my $server = Howdah::Test::Server->start(app => $who, options => ['--workers', 3]);
    is scalar($server->processes(qr/zygote .*app\.psgi/)), 1, 'howdah: zygote app.psgi';
    is scalar($server->processes(qr/worker .*app\.psgi/)), 3, 'howdah: worker ... app.psgi';
};

subtest 'each worker has random numbers of its own' => sub {
    my $server = Howdah::Test::Server->start(
        app     => 'rand; my $once; sub { [200, [], [$once //= rand]] }',
        options => ['--workers', 4]
    );
    my @seen;
    for (1 .. 5) {
        $server->wait_until(sub { @seen = of_all($server, 4); @seen > 1 }, 1) and last;
    }
    cmp_ok scalar @seen, '>', 1, "@seen";

    # Even when the code before the fork has seeded them.
    my $app = 'srand 42; rand; sub { select undef, undef, undef, 0.05; [200, [], ["$$ " . rand]] }';
    $server = Howdah::Test::Server->start(app => $app, options => ['--workers', 4]);
    my @clients =
        map { my $client = Howdah::Test::Client->new($server); $client->write("GET / HTTP/1.0\r\n\r\n"); $client }
        1 .. 4;
    my %number = map { reverse split ' ', $_->response->{body} } @clients;
    cmp_ok scalar keys %number, '>', 1, 'also after srand in the application' or diag explain \%number;
};

subtest '-e, -M, -I, -E and --path' => sub {
    my $server = Howdah::Test::Server->start(
        env     => {PLACK_ENV => 'wrong'},
        options => [
            '-I', 't/lib', '-M', 'Howdah::Test::File', '-E', 'testing', '--path', '/below', '-e',
            'sub { [200, [], [join " ", $INC{"Howdah/Test/File.pm"}, $ENV{PLACK_ENV}, @{$_[0]}{qw(SCRIPT_NAME PATH_INFO)}]] }',
        ],
    );
    is get($server, '/below/it'), 't/lib/Howdah/Test/File.pm testing /below /it';
    is(Howdah::Test::Client->ask($server, "GET /elsewhere HTTP/1.0\r\n\r\n")->{status}, 404);
};

# Text of the application, and what the message says.
my @broken = (
    ['does not compile', 'use strict; $x = 1;', qr/Global symbol "\$x" requires explicit package name/],
    ['dies', 'die "no database today\n"', qr/no database today/],
    ['dies in UTF-8', "die 'ung\xc3\xbcltig'", qr/ung\xc3\xbcltig/],
    ['dies in characters', "use utf8; die 'ung\xc3\xbcltig'", qr/ung\xc3\xbcltig/],
    ['dies in Latin-1', "die 'ung\xfcltig'", qr/ung\xc3\xbcltig/],
    ['misses a module', 'use No::Such::Module;', qr{Can't locate No/Such/Module\.pm}],
    ['is no application', '42', qr/does not return a PSGI application|not .*code reference/i],
    ['exits', 'exit 7', qr/exit status 7|the process that loads it ended/],
    [
        'has workers that leave in a hook', 'Howdah->after_fork(sub { kill TERM => $$ }); sub { }',
        qr/workers end before they serve a request \(exit status 0\)/
    ],
);
for my $case (@broken) {
    my ($what, $code, $message) = @$case;
    for my $preload ([], ['--no-preload']) {
        my $server = Howdah::Test::Server->launch(app => $code, options => ['--workers', 2, @$preload]);
        is $server->wait_for_exit // 'runs', 1, "an application that $what: status 1 @$preload";
        like $server->log, $message, 'and why';
        cmp_ok scalar(grep { /$message/ } split /\n/, $server->log), '<', 10, 'not again and again';
    }
}

subtest 'files that cannot be made are told with the option that names them' => sub {
    my $file = '/no/such/file';
    for my $option (qw(--access-log --error-log --slow-log-file --control --pid)) {
        my @slow = $option eq '--slow-log-file' ? ('--slow-log', 1) : ();
        my ($status, undef, $err) = run_howdah('-l', '127.0.0.1:0', @slow, $option, $file, '-e', 'sub { }');
        is $status, 1, $option;
        like $err, qr/^howdah: \Q$option: cannot \E\w+ .*\Q$file: No such file or directory/m, '... is named';
    }
};

subtest 'a kernel that kills, for it has no memory' => sub {
    my ($status, undef, $err) = run_howdah('-l', '127.0.0.1:0', '-e', 'kill 9, $$; sleep 60');
    is $status, 1;
    like $err, qr/^howdah: perl ended while it loaded the application \(signal KILL\).*lack of memory/m,
        'is thought of';
};

subtest 'an application that is not there' => sub {
    my ($status, undef, $trouble) = run_howdah('--listen', '127.0.0.1:0', '/no/such.psgi');
    is $status, 2, 'a mistake in the command line';
    like $trouble, qr{/no/such\.psgi};
};

done_testing;
