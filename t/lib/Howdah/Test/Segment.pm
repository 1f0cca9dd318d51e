package Howdah::Test::Segment;

# The memory that a worker shares with the front, for applications that misuse it: loaded by t/apps/scribble.psgi. With
# a process id it is that of another process.
#
#   my $segment = Howdah::Test::Segment->new;             # in the zygote or a worker
#   my ($at, $length) = $segment->region('controls');
#   $segment->write($at, 0, 1, 2);                        # 64-bit words from there on
use strict;
use warnings;
no warnings 'portable';    # this is for 64 bits

# The header's first words, see xs/wire.h.
use constant HEADER =>
    qw(magic total fronts workers slots ring fronts_at workers_at routes_at ring_at controls_at slots_at extents_at);

# Sizes of a slot and its parts, and how much of each part is in use by small requests.
use constant {STRIDE => 736 * 1024, REPORT_AT => 222 * 1024, RING_AT => 224 * 1024, NEAR => 6 * 1024, USED => 1024};
use constant {CONTROL => 128, EXTENT => 1 << 20, PAGE => 4096};

# Where the queue's cells and the names of variables stand in the header.
use constant {NAMES_AT => 88, NAMES => 1024, QUEUE_AT => 1152, QUEUE => 512};

my %geometry;    # as it was before anybody misused it

sub new {
    my ($class, $pid) = @_;
    my $process = '/proc/' . ($pid // 'self');
    open my $memory, '+<:unix', "$process/mem" or die "no memory: $!";
    my $self = bless {memory => $memory, base => _base($process)}, $class;
    @geometry{(HEADER)} = unpack 'Q2 L4 Q7', $self->bytes(0, 88) if !%geometry;
    return $self;
}

sub geometry { return $geometry{$_[1]} }

sub _base {
    my $process = shift;
    open my $maps, '<', "$process/maps" or die "no maps: $!";
    my @bases = map { m{^([0-9a-f]+)-.*/memfd:howdah \(deleted} ? hex $1 : () } <$maps>;
    return $bases[0] // die 'no shared segment';
}

sub bytes {
    my ($self, $at, $length) = @_;
    sysseek $self->{memory}, $self->{base} + $at, 0 or die $!;
    defined sysread $self->{memory}, my $bytes, $length or die "cannot read at $at: $!";
    return $bytes;
}

sub words { my ($self, $at, $count) = @_; return unpack 'Q*', $self->bytes($at, 8 * $count) }

sub write {    ## no critic (ProhibitBuiltinHomonyms)
    my ($self, $at, @words) = @_;
    sysseek $self->{memory}, $self->{base} + $at, 0 or die $!;
    return syswrite $self->{memory}, pack 'Q*', @words;
}

# Offset of a slot's control words.
sub control { return $geometry{controls_at} + $_[1] * CONTROL }

# The slot that a worker serves.
sub slot_of {
    my ($self, $worker) = @_;
    return unpack('L', $self->bytes($geometry{workers_at} + $worker * CONTROL + 8, 4)) - 1;
}

# A part of the segment that is in use, as offset and length; of parts that each slot has, the given slot's.
sub region {
    my ($self, $name, $slot) = @_;
    my $at      = $geometry{slots_at} + ($slot // 0) * STRIDE;
    my %regions = (
        header    => [0, NAMES_AT],
        names     => [NAMES_AT, NAMES],
        queue     => [QUEUE_AT, QUEUE],
        fronts    => [$geometry{fronts_at}, PAGE],
        workers   => [$geometry{workers_at}, 8 * CONTROL],
        routes    => [$geometry{routes_at}, PAGE],
        ring      => [$geometry{ring_at} + 8 * $self->_head, 8 * 16],
        controls  => [$self->control($slot // 0), CONTROL],
        requests  => [$at + REPORT_AT - NEAR, USED],
        far       => [$at, USED],
        reports   => [$at + REPORT_AT, USED],
        responses => [$at + RING_AT, USED],
        extents   => [$geometry{extents_at} + ($slot // 0) * EXTENT, PAGE],
    );
    return @{$regions{$name} // die "no region $name"};
}

# The place in the queue's ring that is claimed next; less the last few, so that a region fits behind.
sub _head {
    my $self  = shift;
    my $place = ($self->words(QUEUE_AT, 1))[0] & ($geometry{ring} - 1);
    return $place > $geometry{ring} - 16 ? $geometry{ring} - 16 : $place;
}

1;
