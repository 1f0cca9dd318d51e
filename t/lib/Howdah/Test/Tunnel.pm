package Howdah::Test::Tunnel;

# A stream of HTTP/2 that a client has opened by CONNECT (RFC 8441), with the words of a Howdah::Test::Client.
#
#   my $frames = Howdah::Test::Frames->new($server);
#   my $tunnel = Howdah::Test::Tunnel->new($frames, 1, '/chat', protocol => 'websocket', fields => [['x-a', 'b']]);
#   $tunnel->status;          # 200
#   $tunnel->write($bytes);   # as the server's windows let it; false when it is broken off meanwhile
#   $tunnel->take(4);         # undef at the end
#   $tunnel->shut;            # END_STREAM
#   $tunnel->reset;           # RST_STREAM
#
# The window of the stream is opened for what take, line and rest have taken, by nothing else; that of the connection is wide
# open, so that no stream waits for another.
use strict;
use warnings;

use Howdah::Test::Frames qw(LAST);
use Time::HiRes qw(time);

use constant {PATIENCE => 20, CANCEL => 8, FRAME => 16384};

sub new {
    my ($class, $frames, $stream, $path, %how) = @_;
    my $protocol = $how{protocol} // 'websocket';
    $frames->send('WINDOW_UPDATE', 0, 0, pack 'N', 1 << 30) if !$frames->{wide}++;
    my @fields = ([':protocol', $protocol], ['sec-websocket-version', 13], @{$how{fields} // []});
    $frames->request($stream, $path, method => 'CONNECT', open => 1, fields => \@fields);
    return bless {frames => $frames, stream => $stream, sent => 0}, $class;
}

sub frames { return $_[0]{frames} }
sub seen { return $_[0]{frames}{seen}{$_[0]{stream}} //= {body => ''} }

# Waits for its final status.
sub status {
    my $self = shift;
    $self->_wait(sub { ($self->seen->{status} // 0) >= 200 });
    return $self->seen->{status};
}

# The code by which the server has broken it off.
sub broken {
    my $self = shift;
    $self->_wait(sub { $self->_is_over });
    return $self->seen->{reset};
}

sub is_closed {
    my $self = shift;
    $self->_wait(sub { $self->_is_over });
    return $self->_is_over;
}

sub write {    ## no critic (ProhibitBuiltinHomonyms)
    my ($self, $bytes)    = @_;
    my ($frames, $stream) = @{$self}{qw(frames stream)};
    while (length $bytes) {
        $self->_wait(sub { $frames->window($stream) > 0 || defined $self->seen->{reset} });
        my ($length) = sort { $a <=> $b } length $bytes, FRAME, $frames->window($stream);
        return 0 if $length <= 0 || defined $self->seen->{reset};
        $frames->send(DATA => 0, $stream, substr $bytes, 0, $length, '') or return 0;
    }
    return 1;
}

sub shut { my $self = shift; return $self->{frames}->send(DATA => LAST, $self->{stream}, '') }

sub reset {    ## no critic (ProhibitBuiltinHomonyms)
    my $self = shift;
    return $self->{frames}->send('RST_STREAM', 0, $self->{stream}, pack 'N', CANCEL);
}

sub take {
    my ($self, $length, $patience) = @_;
    my $taken = '';
    while (length $taken < $length) {
        my $piece = substr $self->seen->{body}, 0, $length - length $taken, '';
        return if !length $piece && !$self->_has_more($patience);
        $self->_open(length $piece) if length $piece;
        $taken .= $piece;
    }
    return $taken;
}

sub line {
    my $self = shift;
    my $line = '';
    while ($line !~ /\n\z/) { $line .= $self->take(1) // return $line }
    return $line;
}

# All up to the end.
sub rest {
    my $self = shift;
    my $rest = '';
    while ($self->_has_more) { $rest .= $self->take(length $self->seen->{body}) }
    return $rest;
}

sub _has_more {
    my ($self, $patience) = @_;
    $self->_wait(sub { length $self->seen->{body} || $self->_is_over }, $patience);
    return length $self->seen->{body} > 0;
}

# Lets the server send so much more.
sub _open {
    my ($self, $bytes) = @_;
    return if $self->_is_over;
    return $self->{frames}->send('WINDOW_UPDATE', 0, $self->{stream}, pack 'N', $bytes);
}

sub _is_over {
    my $self = shift;
    return $self->seen->{end} || defined $self->seen->{reset} || $self->{frames}{closed};
}

sub _wait {
    my ($self, $until, $patience) = @_;
    my $end = time + ($patience // PATIENCE);
    until ($until->()) {
        return 0 if $self->{frames}{closed} || !$self->{frames}->next_frame($end - time);
    }
    return 1;
}

1;
