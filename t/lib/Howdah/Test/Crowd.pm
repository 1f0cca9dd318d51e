package Howdah::Test::Crowd;

# A crowd: many connections, opened one after the other and then silent; then some of them send a request, all at once.
# Tells what has become of each.
#
#   my $crowd = Howdah::Test::Crowd->gather($server, connections => 20_000);
#   sleep 3;
#   my $outcome = $crowd->ask(9_500);    # {200 => 9400, 503 => 100}
#
# An outcome is a status; "reset" or "closed" without an answer; "silent", when the server's kernel has the request and no
# answer came in time; "lost", when not even that has acknowledged it: the connection was never accepted; or "refused",
# when there was no connection at all. Several processes do it, so that the limit of open files suffices; the addresses
# are 127.0.0.2 and the next ones, so that there are ports enough. The requests come from those who connected first.
use strict;
use warnings;

use IO::Handle ();
use JSON::PP ();
use POSIX ();
use Socket qw(AF_INET SOCK_STREAM IPPROTO_TCP MSG_DONTWAIT inet_aton pack_sockaddr_in);
use Time::HiRes qw(time);

# Connections of one process.
use constant SHARE => 4_000;

# An answer that is not there by then never comes.
use constant PATIENCE => 40;

# In struct tcp_info: segments that the other side has not acknowledged.
use constant {TCP_INFO => 11, UNACKED => 24};

sub gather {
    my ($class, $server, %wish) = @_;
    my ($port, $left, @hosts)   = ($server->port, $wish{connections});
    for (my $number = 2 ; $left > 0 ; $number += 2, $left -= SHARE) {
        push @hosts, _start($port, $left < SHARE ? $left : SHARE, $number);
    }
    readline $_->{out} for @hosts;    # each says when it is ready
    return bless {hosts => \@hosts}, $class;
}

sub ask {
    my ($self, $requests) = @_;
    my (@busy, %total);
    for my $host (@{$self->{hosts}}) {
        my $share = $requests < $host->{count} ? $requests : $host->{count};
        syswrite $host->{in}, "$share\n";
        $requests -= $share;
    }
    for my $host (@{$self->{hosts}}) {
        my $outcome = JSON::PP::decode_json(readline($host->{out}) || '{"no result":1}');
        $total{$_} += $outcome->{$_} for keys %$outcome;
    }
    return \%total;
}

# Closes all connections.
sub leave {
    my $self = shift;
    for my $host (splice @{$self->{hosts}}) {
        close $host->{in};
        kill TERM => $host->{pid};    # those that came later have its end of the pipe, too
        waitpid $host->{pid}, 0;
    }
    return;
}

sub DESTROY { my $self = shift; local ($@, $!, $?); $self->leave; return }

sub _start {
    my ($port, $count, $number) = @_;
    pipe my $out, my $tell or die "no pipe: $!";
    pipe my $told, my $in or die "no pipe: $!";
    my $pid = fork // die "cannot fork: $!";
    if ($pid) { return {pid => $pid, out => $out, in => $in, count => $count} }
    close $_ for $out, $in;
    alarm 0;
    $tell->autoflush;
    my @sockets = map { _connect($port, $number + $_ % 2) } 1 .. $count;
    print {$tell} "ready\n";

    while (my $requests = readline $told) {
        print {$tell} JSON::PP::encode_json(_ask(@sockets[0 .. $requests - 1])), "\n";
    }
    POSIX::_exit(0);
}

sub _connect {
    my ($port, $number) = @_;
    socket my $socket, AF_INET, SOCK_STREAM, 0 or return;
    bind $socket, pack_sockaddr_in(0, inet_aton("127.0.0.$number")) or return;
    connect $socket, pack_sockaddr_in($port, inet_aton('127.0.0.1')) or return;
    return $socket;
}

sub _ask {
    my @sockets = @_;
    my (%outcome, %waiting);
    local $SIG{PIPE} = 'IGNORE';
    for my $socket (@sockets) {
        if (!$socket) { $outcome{refused}++; next }
        send $socket, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", MSG_DONTWAIT;
        $waiting{fileno $socket} = {socket => $socket, input => ''};
    }
    for (my $end = time + PATIENCE ; %waiting && time < $end ;) {
        my $ready = '';
        vec($ready, $_, 1) = 1 for keys %waiting;
        next if select($ready, undef, undef, 0.5) <= 0;
        for my $number (grep { vec $ready, $_, 1 } keys %waiting) {
            my $done = _receive($waiting{$number}) // next;
            $outcome{$done}++;
            delete $waiting{$number};
        }
    }
    $outcome{_is_acknowledged($_->{socket}) ? 'silent' : 'lost'}++ for values %waiting;
    return \%outcome;
}

# What has become of the request, once that is clear.
sub _receive {
    my $waiting = shift;
    my $read    = sysread $waiting->{socket}, $waiting->{input}, 4096, length $waiting->{input};
    if ($waiting->{input} =~ m{^HTTP/1\.1 (\d{3}) .*?\r\n\r\n.}s) { return $1 }
    return $read ? undef : defined $read ? 'closed' : 'reset';
}

sub _is_acknowledged {
    my $info = getsockopt $_[0], IPPROTO_TCP, TCP_INFO;
    return $info && unpack('L', substr $info, UNACKED, 4) == 0;
}

1;
