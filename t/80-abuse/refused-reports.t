# A kernel that is short of memory refuses each packet of a zygote or a worker once: that a worker is there, that one has ended, an
# interim response. So does one to whom too many descriptors are on their way: what is found in a worker, a file. It is sent again, so
# that no worker and no answer is missed, and no request fails.
use strict;
use warnings;
use lib 't/lib';

use Config;
use File::Temp ();
use Howdah::Test::Client;
use Howdah::Test::File qw(write_file);
use Howdah::Test::Operator;
use Howdah::Test::Server;
use Test::More;

# The front and its launchers ask the kernel without the C library: only perls are refused.
my $refuser = <<'C';
#define _GNU_SOURCE
#include <errno.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    static unsigned calls[2];
    const int passes = message->msg_controllen > 0;
    if (calls[passes]++ % 2 == 0) {
        errno = passes ? ETOOMANYREFS : ENOBUFS;
        return -1;
    }
    return syscall(SYS_sendmsg, fd, message, flags);
}
C

my $dir = File::Temp->newdir;
write_file("$dir/refuser.c", $refuser);
plan skip_all => 'no C compiler'
    if system("$Config{cc} -shared -fPIC -o $dir/refuser.so $dir/refuser.c 2>/dev/null") != 0;

sub body {
    my ($server, $path) = @_;
    return Howdah::Test::Client->ask($server, "GET $path HTTP/1.1\r\nHost: x\r\n\r\n")->{body};
}

my $operator = Howdah::Test::Operator->new;
my $server   = Howdah::Test::Server->start(
    app => <<'PSGI',
sub {
    my $hint = $_[0]{'psgix.informational'};
    $hint->(103, [Link => '</style.css>']) if $_[0]{PATH_INFO} eq '/hint';
    return [200, [], [$$]];
}
PSGI
    options => ['--workers', 2, $operator->options],
    env     => {LD_PRELOAD => "$dir/refuser.so"},
);
my $idle = sub {
    map { $_->{pid} } grep { $_->{state} eq 'idle' } @{$operator->status->{workers}{list}};
};
my %all = map { $_ => 1 } $idle->();
is keys %all, 2, 'the first workers are up';
for my $round (1 .. 3) {
    my ($victim) = $server->workers;
    kill KILL => $victim;
    ok $server->wait_until(sub {
        my @now = $idle->();
        @now == 2 && !grep { $_ == $victim } @now;
        }),
        "round $round: another one is up in the place of a dead one";
}
is + ($operator->ask('reload'))[0], 0, 'a reload works';
for my $request (1 .. 4) {
    my $client = Howdah::Test::Client->asking($server, '/hint');
    is join(' ', map { $client->response->{status} } 1, 2), '103 200', "interim response $request is sent";
}
my ($status, $found, $err) = $operator->ask(qw(heap --why Howdah::Test::None));
is $status, 0, 'what somebody looks for in a worker is told' or diag $err;
like body($server, '/'), qr/^\d+$/, 'it serves';
is $server->stop, 0;

done_testing;
