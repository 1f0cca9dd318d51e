package Howdah::Test::Ports;

# Ports for servers that have to be told one: where 0 would do, 0 is better. plackup is one of the others, it takes
# --port 0 for its default, 5000, which is one port for all the tests that run at a time.
use strict;
use warnings;

use Exporter qw(import);
use IO::Socket::INET ();

our @EXPORT_OK = qw(free_port);

# Below those that the kernel gives to clients, so that none gets it before the server binds it; and not in the same
# order in two tests that run side by side.
my ($lowest, $ports) = (10_000, 20_000);

# A port of 127.0.0.1 that nobody listens on, each time another.
sub free_port {
    our %given;
    for (1 .. 100) {
        my $port = $lowest + int rand $ports;
        next if $given{$port}++;
        return $port if IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1', LocalPort => $port);
    }
    die "no free port: $!";
}

1;
