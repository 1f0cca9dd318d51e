# Responses of every shape, by path: what t/40-protocol/framing.t and others look at on the wire.
use strict;
use warnings;

my %SHAPES = (
    '/array'    => sub { [200, [], ['one', 'two', 'three']] },
    '/given'    => sub { [200, ['Content-Length' => 5], ['given']] },
    '/nothing'  => sub { [200, [], []] },
    '/short'    => sub { [200, ['Content-Length' => 10], ['short']] },
    '/long'     => sub { [200, ['Content-Length' => 4], ['long and more']] },
    '/204'      => sub { [204, [], []] },
    '/304'      => sub { [304, ['ETag' => '"x"'], []] },
    '/205'      => sub { [205, [], []] },
    '/204-body' => sub { [204, [], ['not to be sent']] },
    '/205-body' => sub { [205, ['Content-Length' => 14], ['not to be sent']] },
    '/304-body' => sub { [304, [], ['not to be sent']] },
    '/date'     => sub { [200, ['Date' => 'Thu, 01 Jan 1970 00:00:00 GMT', 'Server' => 'own'], ['dated']] },
    '/cookies'  => sub { [200, ['Set-Cookie' => 'a=1', 'Set-Cookie' => 'b=2'], ['']] },
    '/close'    => sub { [200, ['Connection' => 'close'], ['closing']] },
    '/odd'      => sub { [799, ['X-Odd' => 'yes'], ['odd']] },
    '/big'      => sub { [200, [], ['x' x 3_000_000]] },
    '/handle'   => sub { open my $in, '<', \'from a handle'; [200, [], $in] },
    '/object'   => sub { [200, [], bless ['get', 'line', 'object'], 'Lines'] },
    '/file'     => sub { open my $in, '<', __FILE__ or die; [200, [], $in] },
    '/delayed'  => sub {
        sub { $_[0]->([200, [], ['delayed']]) }
    },
    '/stream'         => streaming('one', 'two', 'three'),
    '/stream-empty'   => streaming('one', '', '', 'two'),
    '/stream-nothing' => streaming(),
    '/stream-given'   => streaming(['Content-Length' => 6], 'onetwo'),
    '/stream-short'   => streaming(['Content-Length' => 10], 'short'),
    '/stream-long'    => streaming(['Content-Length' => 4], 'long', ' and more'),
    '/stream-big'     => streaming(('y' x 350_000) x 8),
);

# Writes each piece and waits a little, so that the head leaves before the end is known.
sub streaming {
    my @pieces  = @_;
    my $headers = ref $pieces[0] ? shift @pieces : [];
    return sub {
        sub {
            my $writer = $_[0]->([200, $headers]);
            for (@pieces) { $writer->write($_); select undef, undef, undef, 0.05 }
            $writer->close;
        }
    };
}

sub Lines::getline { return shift @{$_[0]} }
sub Lines::close { return 1 }

sub {
    my $shape = $SHAPES{$_[0]{PATH_INFO}} or return [404, [], ["no $_[0]{PATH_INFO}"]];
    return $shape->($_[0]);
};
