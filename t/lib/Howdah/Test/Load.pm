package Howdah::Test::Load;

# Constant load from a process of its own, with every request accounted for: each must get exactly one response, the
# right one, on the connection it was sent on.
#
#   my $load = Howdah::Test::Load->start($server, connections => 16, seconds => 20);
#   ...                                       # kill, reload, restart
#   my $result = $load->finish;      # {requests => 123, status => {200 => 120, 502 => 2, cut => 1}, problems => [],
#                                    #  seen => {'/1-1' => 200, ...}}
#
# Ends after `seconds`, or after `requests` of them, or when stop is called. With fresh => 1 each request has a
# connection of its own; with reopen => 0 a connection that the server has closed is not replaced, and the load ends with
# the last one; with until_refused => 1 it is as long as somebody listens. With pipeline => N up to N requests are sent at
# once; those behind a response that ends the connection are forgotten. With pad => N every third response has so many
# zero bytes more. Where a busy machine has kept the client from its next request for longer than `rests` seconds, the
# server may have closed the connection meanwhile, and it asks again on another one (RFC 9112 9.5). The application is
# t/apps/load.psgi; below => '/path' is where it is mounted. The connections are by TLS where Howdah::Test::Tls says so.
use strict;
use warnings;

use Howdah::Test::Tls;
use IO::Select ();
use IO::Socket::INET ();
use JSON::PP ();
use POSIX ();
use Time::HiRes qw(time);

# A response that is not there by then never comes.
use constant PATIENCE => 20;

# Bytes that a worker can hand over before anybody has taken some: its ring.
use constant LONG => 512 * 1024;

# For so many seconds the server keeps a connection for the next request: an upgrade gives 5, a stop 0.3.
use constant RESTS => 4;

# Whoever was to call stop is gone by then.
use constant LONGEST => 120;

sub start {
    my ($class, $server, %wish) = @_;
    my $port = $server->port;
    pipe my $out, my $in or die "no pipe: $!";
    $in->autoflush;
    my $pid = fork // die "cannot fork: $!";
    if ($pid) { close $in; return bless {pid => $pid, out => $out}, $class }
    close $out;
    alarm 0;
    my %usual = (port => $port, connections => 8, pipeline => 1, rests => RESTS, late => 0);
    my $self  = bless {%usual, %wish, tell => $in, serial => 0, %{_nothing()}}, $class;
    eval { $self->_run; 1 } or $self->_problem("the load client died: $@");
    print {$in} JSON::PP::encode_json({map { $_ => $self->{$_} } qw(status problems requests bytes seen)});
    close $in;
    POSIX::_exit(0);
}

sub _nothing { return {status => {}, problems => [], seen => {}} }

# Returns when all of the first connections are there.
sub wait_for_connections {
    my $self = shift;
    $self->{connected} //= readline $self->{out};
    return;
}

# No more requests; those under way get their responses.
sub stop { my $self = shift; kill TERM => $self->{pid}; return $self }

sub finish {
    my $self = shift;
    $self->wait_for_connections;
    my $text   = ($self->{connected} // '') eq "connected\n" ? readline $self->{out} : $self->{connected};
    my $result = JSON::PP::decode_json($text || '{"problems":["no result"]}');
    waitpid $self->{pid}, 0;
    return $result;
}

sub _run {
    my $self = shift;
    my $end  = time + ($self->{seconds} // LONGEST);
    my $most = $self->{requests} // 1e9;
    my %open;
    $self->{requests} = 0;
    local $SIG{TERM} = sub { $end = 0 };
    my $more   = sub { time < $end && $self->{serial} - $self->{late} < $most };
    my $reopen = sub { ($self->{reopen} // 1) && $more->() };
    my $select = IO::Select->new;
    for (1 .. $self->{connections}) { $self->_open(\%open, $select) if $more->() }
    print {$self->{tell}} "connected\n";

    while (%open) {
        my @ready = $select->can_read(0.5);
        for my $socket (@ready) {
            my $connection = $open{$socket};
            my $alive      = $self->_receive($connection);
            next if $alive && @{$connection->{due}};
            if ($alive && $more->() && !$self->{fresh}) { $self->_send($connection); next }
            $select->remove($socket);
            delete $open{$socket};
            $self->_open(\%open, $select) if $reopen->();
        }
        $self->_give_up(\%open, $select, @ready);
    }
    return;
}

sub _open {
    my ($self, $open, $select) = @_;
    my $socket =
        Howdah::Test::Tls->is_wanted
        ? Howdah::Test::Tls::connect_to($self->{port})
        : IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $self->{port}, Timeout => PATIENCE);
    return $self->{reopen} = 0 if !$socket && $self->{until_refused} && $!{ECONNREFUSED};
    return $self->_problem("cannot connect: $!") if !$socket;
    $socket->blocking(1);
    $open->{$socket} = {socket => $socket, input => '', due => []};
    $select->add($socket);
    return $self->_send($open->{$socket});
}

sub _send {
    my ($self, $connection) = @_;
    my $bytes = join '', map { $self->_request($connection) } 0 .. $self->{serial} % $self->{pipeline};
    my $asked = $connection->{asked};
    $connection->{asked} = $connection->{since} = time;
    local $SIG{PIPE} = 'IGNORE';

    while (length $bytes) {
        my $sent = syswrite $connection->{socket}, $bytes;
        last if !defined $sent;    # what is wrong shows when reading
        substr $bytes, 0, $sent, '';
    }
    $connection->{late} = defined $asked && time - $asked > $self->{rests};
    return;
}

# Every fifth request has a body, every fiftieth one that is spooled.
sub _request {
    my ($self, $connection) = @_;
    my $id    = ++$self->{serial};
    my $body  = $id % 50 == 0 ? 'x' x 100_000 : $id % 5 == 0 ? 'y' x ($id % 3000) : '';
    my $close = $self->{fresh} ? "Connection: close\r\n" : '';
    my $pad   = $id % 3 ? 0 : $self->{pad} // 0;
    my $path  = sprintf '%s/%d-%d%s', $self->{below} // '', $$, $id, $pad ? "?$pad" : '';
    push @{$connection->{due}}, {wanted => "$$-$id " . length $body, pad => $pad};
    return sprintf "POST %s HTTP/1.1\r\nHost: x\r\n%sContent-Length: %d\r\n\r\n%s", $path, $close,
        length $body, $body;
}

# Reads what has come. False when the connection has ended.
sub _receive {
    my ($self, $connection) = @_;
    my ($socket, $due)      = @$connection{qw(socket due)};

    # What TLS says for itself must not be waited behind.
    $socket->blocking(0) if Howdah::Test::Tls->is_wanted;
    my $read = sysread $socket, $connection->{input}, 65536, length $connection->{input};
    return 1 if !defined $read && $!{EAGAIN};
    $socket->blocking(1) if Howdah::Test::Tls->is_wanted;
    if (!$read) {
        $self->_ended($connection) if @$due;
        return 0;
    }
    my $alive = 1;
    while ($alive && @$due) {
        my ($head, $body) = _response($connection) or return 1;
        $alive = $self->_done($connection, $head, $body);
    }
    return $alive if $connection->{input} eq '';
    $self->_problem('bytes behind the last response');
    return 0;
}

# Head and body of the next response; nothing while it is not whole.
sub _response {
    my $connection = shift;
    my $at         = index $connection->{input}, "\r\n\r\n";
    return if $at < 0;
    my $head = substr $connection->{input}, 0, $at;
    my ($length) = $head =~ /^Content-Length: (\d+)/mi;
    if (defined $length) {
        return if length $connection->{input} < $at + 4 + $length;
        my $body = substr $connection->{input}, $at + 4, $length;
        substr $connection->{input}, 0, $at + 4 + $length, '';
        return ($head, $body);
    }
    my ($body, $end) = _chunks($connection->{input}, $at + 4) or return;
    substr $connection->{input}, 0, $end, '';
    return ($head, $body);
}

sub _done {
    my ($self, $connection, $head, $body) = @_;
    my ($wanted, $pad) = @{shift @{$connection->{due}}}{qw(wanted pad)};
    my ($status) = $head =~ m{^HTTP/1\.1 (\d+)};
    $connection->{since} = time;
    $connection->{late}  = 0;
    $self->_note($wanted, $status // 'none');
    my $zeros = $body =~ s/(\0*)\z// ? length $1 : 0;
    $self->_problem("'$body' and $zeros zeros for $wanted and $pad")
        if ($status // 0) == 200 && ($body ne $wanted || $zeros != $pad);
    return $head !~ /^Connection: close/mi;
}

# A response that its worker has not handed over whole when it dies can only be cut: one that is streamed, or too long for the ring. Who
# asked too late asks again.
sub _ended {
    my ($self, $connection) = @_;
    my ($input, $due)       = ($connection->{input}, $connection->{due}[0]);
    my $wanted = $due->{wanted};
    return $self->_note($wanted, 'cut')
        if $input =~ m{^HTTP/1\.1 200 .*?^(?:Transfer-Encoding: chunked|Content-Length: (\d+))\r}ms
        && (!defined $1 || $due->{pad} > LONG);
    return $self->{late} += @{$connection->{due}} if $connection->{late} && $input eq '';
    $input =~ s/\0.*\z/.../s;
    return $self->_problem("connection ended after '$input' for $wanted");
}

# Not those of whom something has just come: the client itself may have been kept from looking for all that time, and by TLS what
# has come first is no response.
sub _give_up {
    my ($self, $open, $select, @ready) = @_;
    my %has_said = map { $_ => 1 } @ready;
    for my $connection (grep { !$has_said{$_->{socket}} } values %$open) {
        next if !@{$connection->{due}} || time - $connection->{since} < PATIENCE;
        $self->_problem("no response to $connection->{due}[0]{wanted}");
        $select->remove($connection->{socket});
        delete $open->{$connection->{socket}};
    }
    return;
}

sub _note {
    my ($self, $wanted, $status) = @_;
    $self->{requests}++;
    $self->{status}{$status}++;
    $self->{seen}{$wanted =~ s/ .*//r} = $status;
    return;
}

sub _problem { my ($self, $what) = @_; push @{$self->{problems}}, $what; return }

# A chunked body that begins there, and where it ends; nothing while it is not whole.
sub _chunks {
    my ($text, $from) = @_;
    my $body = '';
    pos($text) = $from;
    while ($text =~ /\G([0-9a-f]+)\r\n/gci) {
        my ($length, $at) = (hex $1, pos $text);
        return if length $text < $at + $length + 2;
        return ($body, $at + 2) if !$length;
        $body .= substr $text, $at, $length;
        pos($text) = $at + $length + 2;
    }
    return;
}

1;
