# Sends one line a second for ten seconds: curl -N http://127.0.0.1:5000/
# The worker is busy for those ten seconds; the client may read as slowly as it likes.
use strict;
use warnings;

sub {
    my $env = shift;
    return sub {
        my $respond = shift;
        my $writer  = $respond->([200, ['Content-Type' => 'text/plain']]);
        for my $second (1 .. 10) {
            $writer->write("line $second\n");
            sleep 1;
        }
        $writer->close;
    };
};
