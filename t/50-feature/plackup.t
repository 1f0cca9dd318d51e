# plackup -s Howdah with plackup's own options, and with those of the servers that it may replace.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Operator;
use Howdah::Test::Ports qw(free_port);
use Howdah::Test::Server;
use Test::More;

my ($plackup) = grep { -x } map { "$_/plackup" } split /:/, $ENV{PATH};
my $app =
    'sub { [200, [], [join " ", $$, map { $_ // "none" } $ENV{PLACK_ENV}, @{$_[0]}{qw(SCRIPT_NAME PATH_INFO)}]] }';

sub plackup {
    my @options = @_;
    return Howdah::Test::Server->start(app => $app, command => [$^X, $plackup, '-s', 'Howdah'], options => \@options);
}
sub get { my ($to) = @_; return Howdah::Test::Client->ask($to, "GET /x HTTP/1.0\r\n\r\n")->{body} // '' }

subtest '--host, --port, --max-workers, -E' => sub {
    my $server = plackup('--host', '127.0.0.1', '--port', free_port(), '--max-workers', 3, '-E', 'deployment');
    like get($server), qr{^\d+ deployment  /x$};
    ok $server->wait_until(sub { $server->workers == 3 }), 'three workers';
    is $server->stop('TERM'), 0, 'TERM';
};

subtest '--listen, --socket, --path, --workers' => sub {
    my $dir    = File::Temp->newdir;
    my $server = plackup('--listen', '127.0.0.1:0', '-E', 'test', '--path', '/x', '--workers', 1);
    like get($server), qr{^\d+ test /x $}, '--path';
    is scalar($server->workers), 1;
    is $server->stop('INT'), 0, 'INT';
    my $local = plackup('--socket', "$dir/sock", '-E', 'test');
    like get("$dir/sock"), qr/ test /, 'Unix socket';
    is $local->stop, 0;
    ok !-e "$dir/sock", 'which is removed';
};

subtest 'development: Lint, StackTrace and AccessLog, as with any server' => sub {
    my $server = plackup('--host', '127.0.0.1', '--port', free_port());
    like get($server), qr/ development /;
    ok $server->wait_for_log(qr{"GET /x HTTP/1\.0" 200}), 'access log';
};

subtest '--max-reqs-per-child' => sub {
    my $server =
        plackup('--host', '127.0.0.1', '--port', free_port(), '--max-reqs-per-child', 2, '--workers', 1, '-E', 'test');
    my %pids = map { (split ' ', get($server))[0] => 1 } 1 .. 10;
    cmp_ok scalar keys %pids, '>=', 4;
};

subtest 'a reload replaces the workers, and says that the code stays' => sub {
    my $operator = Howdah::Test::Operator->new;
    my $server   = plackup(
        '--host', '127.0.0.1', '--port', free_port(), '--workers', 1, '-E', 'test', '--control',
        $operator->control
    );
    my $before = get($server);
    unlike $server->log, qr/kill -HUP/, 'none is offered';
    like $server->log, qr/the zygote has the application as plackup has loaded it/, 'nor a time told that nobody took';
    my ($status, $out, $err) = $operator->ask('reload');
    is "$status$err", 0;
    like $out, qr/the workers are replaced, but the code is what plackup has loaded: start howdah itself/;
    isnt get($server), $before, 'they are';
};

subtest 'signals that whoever started plackup has blocked are heard' => sub {
    my $parent   = 'use POSIX; sigprocmask(SIG_BLOCK, POSIX::SigSet->new(1 .. 31)) or die; exec @ARGV';
    my @command  = ($^X, '-e', $parent, $^X, $plackup, '-s', 'Howdah');
    my @options  = ('--host', '127.0.0.1', '--port', free_port(), '--workers', 1, '-E', 'test');
    my $server   = Howdah::Test::Server->start(app => $app, command => \@command, options => \@options);
    my ($worker) = split ' ', get($server);
    kill TERM => $worker;
    ok $server->wait_until(sub { my ($next) = $server->workers; $next && $next != $worker }), 'by a worker';
    is $server->stop, 0, 'and by the server';
};

subtest '-L Delayed: each worker loads the application' => sub {
    my $operator = Howdah::Test::Operator->new;
    my $server   = Howdah::Test::Server->start(
        app     => 'my $by = $$; sub { [200, [], ["$by $$"]] }',
        command => [$^X, $plackup, '-s', 'Howdah', '-L', 'Delayed'],
        options => [
            '--host', '127.0.0.1', '--port', free_port(), '--workers', 1, '-E', 'test', '--control', $operator->control
        ],
    );
    like get($server), qr/^(\d+) \1$/, 'by itself';
    like $server->log, qr/each worker loads the application for itself/, 'as the log says';
    my $before = get($server);
    my ($status, $out, $err) = $operator->ask('reload');
    is "$status$err", 0;
    like $out, qr/generation \d+ serves/, 'a reload loads it anew';
    like get($server), qr/^(\d+) \1$/;
    isnt get($server), $before, '... in another worker';
    is $server->stop, 0;
};

subtest 'what is refused says so' => sub {
    my $server = Howdah::Test::Server->launch(
        app     => $app,
        command => [$^X, $plackup, '-s', 'Howdah'],
        options => ['--host', '127.0.0.1', '--port', free_port(), '--no-such-option', 1],
    );
    isnt $server->wait_for_exit // 0, 0;
    like $server->log, qr/no.such.option/;
    $server = Howdah::Test::Server->launch(
        app     => '42',
        command => [$^X, $plackup, '-s', 'Howdah'],
        options => ['--host', '127.0.0.1', '--port', free_port(), '-E', 'test'],
    );
    isnt $server->wait_for_exit // 0, 0;
    like $server->log, qr/^what plackup has loaded does not return a PSGI application: .*, not '42'$/m;
};

done_testing;
