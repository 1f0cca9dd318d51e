# --listen unix:@NAME: a Unix socket that has a name and no file, alone, beside others, over an upgrade, and as a socket
# that somebody else has made.
use strict;
use warnings;
use lib 't/lib';

use File::Temp qw(tempdir);
use Howdah::Test::Client;
use Howdah::Test::Command qw(howdah_bin run_howdah);
use Howdah::Test::Operator;
use Howdah::Test::Server;
use IO::Socket::UNIX;
use Test::More;

plan skip_all => 'abstract sockets are of Linux' if $^O ne 'linux';
my $name = "howdah-test-$$";
my $app  = 'sub { my $env = shift; [200, [], [join " ", map { $_ // "none" } @$env{qw(SERVER_NAME REMOTE_ADDR)}]] }';

sub is_open { return IO::Socket::UNIX->new(Peer => "\0$name") }

sub ask {
    my $socket = is_open() or return "cannot connect: $!";
    syswrite $socket, "GET / HTTP/1.0\r\n\r\n";
    local $/;
    return (split /\r\n\r\n/, scalar(<$socket>) // '', 2)[1] // 'no response';
}

subtest 'it listens on the name, beside a file and a port, and the banner tells how to ask it' => sub {
    my $dir     = tempdir(CLEANUP => 1);
    my @options = ('-S', "$dir/app.sock", '-l', '127.0.0.1:0', '--workers', 1);
    my $server  = Howdah::Test::Server->start(app => $app, listen => "unix:\@$name", options => \@options);
    like ask(), qr/^localhost/, 'the name';
    is(Howdah::Test::Client->ask($_, "GET / HTTP/1.0\r\n\r\n")->{status}, 200, "at $_")
        for "$dir/app.sock", $server->port;
    is + ($server->urls)[0], "unix:\@$name";
    like $server->log, qr{try  curl --abstract-unix-socket \Q$name\E http://localhost/ };
    ok !-e "\@$name", 'there is no file';
    is $server->stop, 0;
    ok !is_open(), 'and no socket in the end';
};

subtest 'a file of that name is reached by ./ before it, and stays otherwise' => sub {
    my $dir    = tempdir(CLEANUP => 1);
    my @mode   = ('--socket-mode', '600', '--workers', 1);
    my $listen = "unix:$dir/\@$name";
    my $server = Howdah::Test::Server->start(app => $app, listen => $listen, options => \@mode);
    ok -S "$dir/\@$name", 'a file';
    ok !is_open(), 'not an abstract socket';
};

subtest 'status, upgrade and stop' => sub {
    my $operator = Howdah::Test::Operator->new;
    my @options  = ('--workers', 1, $operator->options);
    my $server   = Howdah::Test::Server->start(app => $app, listen => undef, options => ['-S', "\@$name", @options]);
    like + ($operator->ask('status'))[1], qr/^listening   unix:\@\Q$name\E$/m;
    my ($status, $out, $err) = $operator->ask('upgrade');
    is $status, 0 or diag $err;
    like $out, qr/process \d+ serves/;
    isnt $operator->status->{server}{pid}, $server->pid, 'another process';
    is_deeply $operator->status->{server}{listeners}, ["unix:\@$name"], 'with the same address';
    like ask(), qr/^localhost/, 'which it answers';
    is + ($operator->ask('stop'))[0], 0;
    ok !is_open(), 'until it is stopped';
};

subtest 'one that systemd has made' => sub {
    my $made   = IO::Socket::UNIX->new(Local => "\0$name", Listen => 8) or die $!;
    my $fd     = fileno $made;
    my $move   = "POSIX::dup2($fd, 20); POSIX::dup2(20, 3); \$ENV{LISTEN_PID} = \$\$; \$ENV{LISTEN_FDS} = 1;";
    my @launch = ($^X, '-MPOSIX', '-e', "$move exec \@ARGV or die", howdah_bin(), '--workers', 1);
    my $server = do {
        local $^F = 50;
        fcntl $made, 2, 0;    # F_SETFD: it stays open over exec
        Howdah::Test::Server->start(app => $app, listen => undef, command => \@launch);
    };
    is $server->url, "unix:\@$name";
    like ask(), qr/^localhost/;
};

subtest 'what cannot be had is refused, with the way out' => sub {
    my $taken = IO::Socket::UNIX->new(Local => "\0$name", Listen => 1) or die $!;
    my ($status, undef, $err) = run_howdah('-l', "unix:\@$name", '-e', $app);
    is $status, 1, 'a name that is taken';
    like $err, qr/unix:\@\Q$name\E: Address already in use.*choose another name/;
    ($status, undef, $err) = run_howdah('-l', "unix:\@$name", '--socket-mode', '600', '-e', $app);
    is $status, 2, '--socket-mode';
    like $err, qr/--socket-mode cannot protect unix:\@\Q$name\E, .*no permissions: give the socket a path/;
};

done_testing;
