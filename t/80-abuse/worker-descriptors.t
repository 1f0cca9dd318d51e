# A worker whose application has left so many files open that there is no number for another one, and a kernel that passes no
# descriptors between processes: what needs one fails with words that tell why, and what can be done without is done.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Descriptors qw(can_limit leave_on_the_way limit_files);
use Howdah::Test::Server;
use Test::More;

plan skip_all => 'no prlimit (util-linux)' if !can_limit();

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
    limit_files($worker, 100);
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

subtest 'the kernel passes no descriptors' => sub {
    my @on_the_way = leave_on_the_way(95) or plan skip_all => 'which call sendmsg is is not known';
    my $server     = start();
    my $file       = $server->write_file('big', 'x' x 1_000_000);
    ask($server, "/open?$file");
    limit_files($_, 90) for $server->pid, $server->workers;    # fewer than are on their way
    large_bodies_are_whole($server);
    is statuses($server), '500 503', 'what needs a descriptor fails, and nobody waits for it';
    ok $server->wait_for_log(qr/cannot answer worker 0: Too many references.*ulimit -n/), 'the log tells why'
        or diag $server->log;
    kill KILL => $server->workers;
    my $cannot = qr/cannot give the zygote an order, which waits: Too many references.*ulimit -n/;
    ok $server->wait_until(sub { $server->log =~ $cannot }),
        'nor can another worker have its channel, as the log tells';
    close $_ for @on_the_way;
    ok $server->wait_until(sub { statuses($server) eq '200 200' }), 'once they are gone, all is well';
};

done_testing;
