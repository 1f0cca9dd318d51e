# Says the size and the SHA-1 of what it is sent: curl -T FILE http://127.0.0.1:5000/
# The body is complete before the worker sees the request, so a slow upload keeps no worker busy.
use strict;
use warnings;

use Digest::SHA;

sub {
    my $env    = shift;
    my $digest = Digest::SHA->new(1);
    my $size   = 0;
    while (my $read = $env->{'psgi.input'}->read(my $chunk, 65536)) {
        $size += $read;
        $digest->add($chunk);
    }
    return [200, ['Content-Type' => 'text/plain'], ["$size bytes, SHA-1 " . $digest->hexdigest . "\n"]];
};
