# A worker asks the front by a socket of its own for what shared memory cannot carry, such as a request body in a file, and waits for the
# answer. Whatever becomes of that socket, requests are served.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Inject;
use Howdah::Test::Server;
use Test::More;

# At /long the application writes to the socket what no worker says.
my $app = <<'PERL';
use Socket;
sub {
    my $env = shift;
    if ($env->{PATH_INFO} eq '/long') {
        our @all = map { open my $fd, '+<&=', $_; $fd } map { m{(\d+)$} } glob '/proc/self/fd/*';
        my @sockets = grep { (unpack 'i', getsockopt($_, SOL_SOCKET, SO_TYPE) // pack 'i', 0) == SOCK_SEQPACKET } @all;
        my @sent = map { send $_, 'x' x 100_000, 0 } @sockets;
        return [200, [], ["@sent"]];
    }
    read $env->{'psgi.input'}, my $body, 4_000_000;
    return [200, [], ["$$ " . length $body]];
}
PERL

# A body that lies in a file.
sub post {
    my $server = shift;
    my $answer =
        Howdah::Test::Client->ask($server, "POST / HTTP/1.0\r\nContent-Length: 3000000\r\n\r\n" . 'x' x 3_000_000);
    return $answer && $answer->{body};
}

subtest 'a packet that is longer than any' => sub {
    my $server = Howdah::Test::Server->start(app => $app, options => ['--workers', 1]);
    my ($pid) = post($server) =~ /^(\d+) 3000000$/ or return fail 'a body is passed';
    like +Howdah::Test::Client->ask($server, "GET /long HTTP/1.0\r\n\r\n")->{body}, qr/\b100000\b/, 'it is sent';
    is post($server), "$pid 3000000", 'its worker is heard as before';
    ok $server->wait_for_log(qr/worker 0 sent a packet of more than \d+ bytes that is no message/), 'the log has it'
        or diag $server->log;
    is $server->stop, 0;
};

# As a security module may have it.
subtest 'what the front is not let read' => sub {
    my $server = Howdah::Test::Server->start(app => $app, options => ['--workers', 1]);
    post($server);
    my ($worker) = $server->workers;
    my $inject = Howdah::Test::Inject->new($server->pid, 'recvmsg:error=EACCES:when=1')
        or plan skip_all => Howdah::Test::Inject->NEEDS;
    post($server);
    $inject->end;
    like post($server), qr/^\d+ 3000000$/, 'its worker has been replaced';
    ok $server->wait_for_log(qr/cannot read the channel of worker 0 of .*, which is to leave: .*denied/),
        'the log has it'
        or diag $server->log;
    ok $server->wait_until(sub {
        !grep { $_ == $worker } $server->workers;
        }),
        'it has left';
    is $server->stop, 0;
};

done_testing;
