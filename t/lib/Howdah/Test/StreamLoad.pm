package Howdah::Test::StreamLoad;

# As Howdah::Test::Load, by HTTP/2: each connection has as many requests at a time as `streams` says. A client that is told to
# leave opens another connection, and asks there for what it was told that the server had not begun.
#
#   my $load = Howdah::Test::StreamLoad->start($server, connections => 4, streams => 8);
use strict;
use warnings;
use parent 'Howdah::Test::Load';

use Howdah::Test::Frames qw(LAST);
use IO::Select ();
use Time::HiRes qw(time);

# A response that is not there by then never comes.
use constant PATIENCE => 20;
use constant {REFUSED => 7, LONGEST => 120};

sub _run {
    my $self = shift;
    my $end  = time + ($self->{seconds} // LONGEST);
    local $SIG{TERM} = sub { $end = 0 };
    my $more = sub { @{$self->{again}} || time < $end };
    @$self{qw(requests again)} = (0, []);
    my @open = map { $self->_connect } 1 .. $self->{connections};
    print {$self->{tell}} "connected\n";
    while (@open) {
        $_->{leaves} || $self->_ask($_, $more) for @open;
        IO::Select->new(map { $_->{client}->socket } @open)->can_read(0.5);
        $self->_hear($_) for @open;
        @open = grep { !$_->{client}{closed} && ($_->{open}->%* || !$_->{leaves} && $more->()) } @open;
        push @open, $self->_connect while $more->() && @open < $self->{connections};
    }
    return;
}

sub _connect {
    my $self   = shift;
    my $client = Howdah::Test::Frames->new($self->{port}, settings => {4 => 1 << 20});
    $client->send('WINDOW_UPDATE', 0, 0, pack 'N', 1 << 30);
    return {client => $client, open => {}, next => 1};
}

# Every fifth request has a body.
sub _ask {
    my ($self, $connection, $more) = @_;
    my ($client, $open) = @$connection{qw(client open)};
    while (keys %$open < $self->{streams} && $more->()) {
        my $id     = shift @{$self->{again}} // ++$self->{serial};
        my $body   = $id % 5 == 0 ? 'y' x ($id % 3000) : '';
        my $stream = $connection->{next};
        $connection->{next} += 2;
        $open->{$stream} = {id => $id, since => time, wanted => "$$-$id " . length $body};
        $client->request($stream, "/$$-$id", method => 'POST', open => 1);
        $client->send('DATA', LAST, $stream, $body);
    }
    return;
}

sub _hear {
    my ($self, $connection) = @_;
    my ($client, $open)     = @$connection{qw(client open)};
    while (my $frame = $client->next_frame(0.0001)) {
        $self->_leave($connection, unpack 'N', $frame->{payload}) if $frame->{type} eq 'GOAWAY';
        my $asked = $open->{$frame->{stream}} or next;
        my $seen  = $client->{seen}{$frame->{stream}};
        next if !$seen->{end} && !defined $seen->{reset};
        $self->_over($asked, $seen);
        delete $open->{$frame->{stream}};
        delete $client->{seen}{$frame->{stream}};
    }
    for my $stream (keys %$open) {
        next if !$client->{closed} && time - $open->{$stream}{since} < PATIENCE;
        my $how = $client->{closed} ? 'the connection has ended' : 'no response';
        $self->_problem("$how: " . delete($open->{$stream})->{wanted});
    }
    return;
}

# Streams above the last that the server knows were not begun.
sub _leave {
    my ($self, $connection, $last) = @_;
    my $open = $connection->{open};
    $connection->{leaves} = 1;
    push @{$self->{again}}, map { delete($open->{$_})->{id} } grep { $_ > $last } keys %$open;
    return;
}

# A streamed response whose worker dies can only be cut.
sub _over {
    my ($self, $asked, $seen) = @_;
    my $status = $seen->{status};
    if (defined $seen->{reset}) {
        return push @{$self->{again}}, $asked->{id} if $seen->{reset} == REFUSED;
        return $self->_problem("reset by $seen->{reset}: $asked->{wanted}") if !$status;
        return $self->_note($asked->{wanted}, 'cut');
    }
    $self->_problem("'$seen->{body}' for $asked->{wanted}") if $status == 200 && $seen->{body} ne $asked->{wanted};
    return $self->_note($asked->{wanted}, $status);
}

1;
