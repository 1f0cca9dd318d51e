package Howdah::Test::Upgrades;

# What a server says of the connections that its applications have taken. It is to have --status-path /status.
#
#   come_to($server, 'open 0 limit 2 total 3 refused 0');    # waits for it, and tests it
use strict;
use warnings;

use Exporter qw(import);
use Howdah::Test::Client;
use JSON::PP qw(decode_json);
use Test::More;

our @EXPORT_OK = qw(come_to counts);

sub counts {
    my $server   = shift;
    my $page     = Howdah::Test::Client->ask($server, "GET /status?json HTTP/1.1\r\nHost: localhost\r\n\r\n");
    my $upgrades = decode_json($page->{body})->{pools}[0]{upgrades};
    return join ' ', map { "$_ $upgrades->{$_}" } qw(open limit total refused);
}

sub come_to {
    my ($server, $counts) = @_;
    $server->wait_until(sub { counts($server) eq $counts }, 15);
    return is counts($server), $counts, $counts;
}

1;
