# Large responses of every framing: t/50-feature/response-spool.t and others look at who waits for their readers.
# /array, /given, /stream: a body of 12 MB at once, streamed with its length, streamed without.
# /half: streams half of it and stays there.
use strict;
use warnings;

use constant PIECE => join '', map { sprintf "%07d\n", $_ } 1 .. 125_000;

sub stream {
    my ($count, $headers, $end) = @_;
    return sub {
        my $writer = $_[0]->([200, $headers // []]);
        $writer->write(PIECE) for 1 .. $count;
        $end->() if $end;
        $writer->close;
    };
}

my %SHAPES = (
    '/hello'  => sub { [200, [], ["hello from $$"]] },
    '/array'  => sub { [200, [], [(PIECE) x 12]] },
    '/given'  => sub { stream(12, ['Content-Length' => 12_000_000]) },
    '/stream' => sub { stream(12) },
    '/half'   => sub {
        stream(6, [], sub { print STDERR "half\n"; sleep 60 });
    },
);

sub { return $SHAPES{$_[0]{PATH_INFO}}->($_[0]) };
