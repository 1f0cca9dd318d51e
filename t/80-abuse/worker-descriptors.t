# A worker whose application has left so many files open that there is no number for another one, and a kernel that passes no
# descriptors between processes: what needs one fails with words that tell why, and what can be done without is done.
use strict;
use warnings;
use lib 't/lib';

use Config;
use Howdah::Test::Client;
use Howdah::Test::Server;
use Socket qw(AF_UNIX SOCK_DGRAM SOL_SOCKET);
use Test::More;

plan skip_all => 'no prlimit (util-linux)' if !grep { -x "$_/prlimit" } split /:/, $ENV{PATH};

my $app = <<'PSGI';
my (@open, $big);
my %do = (
    fill => sub {
        while (open my $file, '<', '/dev/null') { push @open, $file }
        return [200, [], ['full']];
    },
    empty => sub { @open = (); return [200, [], ['empty']] },
    take  => sub {
        print {$_[0]{'psgix.io'}} "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\ntaken";
        return [200, [], []];
    },
    array  => sub { return [200, [], ['x' x 1_000_000]] },
    open   => sub { open $big, '<', $_[0]{QUERY_STRING} or die $!; return [200, [], ['open']] },
    file   => sub { seek $big, 0, 0; return [200, [], $big] },
    length => sub { my $body = ''; 1 while $_[0]{'psgi.input'}->read($body, 65536, length $body); return [200, [], [length $body]] },
);
sub { my $env = shift; return $do{$env->{PATH_INFO} =~ s{^/}{}r}->($env) };
PSGI

sub start { return Howdah::Test::Server->start(app => $app, options => ['--workers', 1]) }

sub limit {
    my ($pid, $limit) = @_;
    return system 'prlimit', '--pid', $pid, "--nofile=$limit";
}

sub ask {
    my ($server, $path, $length) = @_;
    my $start = $length ? "POST $path HTTP/1.1\r\nContent-Length: $length" : "GET $path HTTP/1.1";
    return Howdah::Test::Client->ask($server, "$start\r\nHost: x\r\n\r\n" . 'x' x ($length // 0));
}

sub large_bodies_are_whole {
    my $server = shift;
    is length ask($server, $_)->{body}, 1_000_000, "nothing is missing of the body of $_" for '/array', '/file';
    return;
}

# A request body in a file, and the connection for the application.
sub statuses {
    my $server = shift;
    return join ' ', map { $_->{status} } ask($server, '/length', 3_000_000), ask($server, '/take');
}

subtest 'the application has left files open' => sub {
    my $server   = start();
    my $file     = $server->write_file('big', 'x' x 1_000_000);
    my ($worker) = $server->workers;
    is limit($worker, 100), 0, 'the worker may have few files open';
    ask($server, $_) for "/open?$file", '/fill';
    large_bodies_are_whole($server);
    ask($server, '/fill');
    is statuses($server), '500 500', 'what needs a descriptor fails';
    ok $server->wait_for_log(qr/$_: the worker has no descriptor left \(Too many open files\).*ulimit -n/),
        "the log tells why: $_" for 'the request body', 'psgix\.io';
    is ask($server, '/empty')->{body}, 'empty', 'the application closes them';
    is statuses($server), '200 200', '... and all is well';
    is_deeply [$server->workers], [$worker], '... in the same worker';
};

# Descriptors on their way that nobody takes: past its limit of open files a process without privileges may send no more.
sub leave_on_the_way {
    my ($socket, $count) = @_;
    my ($sendmsg) = map { {x86_64 => 46, aarch64 => 211}->{$_} // () } $Config{archname} =~ /^([^-]+)/;
    plan skip_all => "which call sendmsg is on $Config{archname} is not known" if !$sendmsg;
    my $vector = pack 'P Q', 'x', 1;
    my $passed = pack 'Q i i i*', 16 + 4 * $count, SOL_SOCKET, 1, (fileno $socket) x $count;
    $passed .= "\0" x (-length($passed) % 8);
    my $message = pack 'Q Q P Q P Q Q', 0, 0, $vector, 1, $passed, length $passed, 0;
    syscall($sendmsg, fileno $socket, $message, 0) >= 0 or die "sendmsg: $!";
    return;
}

subtest 'the kernel passes no descriptors' => sub {
    socketpair my $here, my $there, AF_UNIX, SOCK_DGRAM, 0 or die $!;
    leave_on_the_way($here, 95);
    my $server = start();
    my $file   = $server->write_file('big', 'x' x 1_000_000);
    ask($server, "/open?$file");
    is limit($_, 90), 0, 'a process may have fewer files open than are on their way' for $server->pid, $server->workers;
    large_bodies_are_whole($server);
    is statuses($server), '500 503', 'what needs a descriptor fails, and nobody waits for it';
    like $server->log, qr/cannot answer worker 0: Too many references.*ulimit -n/, 'the log tells why';
    kill KILL => $server->workers;
    my $cannot = qr/cannot give the zygote an order, which waits: Too many references.*ulimit -n/;
    ok $server->wait_until(sub { $server->log =~ $cannot }),
        'nor can another worker have its channel, as the log tells';
    close $_ for $here, $there;
    ok $server->wait_until(sub { statuses($server) eq '200 200' }), 'once they are gone, all is well';
};

done_testing;
