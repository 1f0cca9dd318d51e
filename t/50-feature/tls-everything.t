# Tests of HTTP/1 and of connections, which are written for plain ones, hold over TLS: each runs once more so, as a
# process of its own (see t/lib/Howdah/Test/Tls.pm).
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Command qw(run_command);
use Howdah::Test::Tls;
use Test::More;

plan skip_all => 'needs IO::Socket::SSL and openssl' if !Howdah::Test::Tls->is_installed;

# Some ask for http in a place, for more handshakes in a second than every machine makes, or by a client that has no TLS:
# those are left out.
my @tests = (
    (
        map { "t/40-protocol/$_.t" }
            qw(framing keep-alive proxy-field request-bodies request-line smuggling strict upgrade)
    ),
    (
        map { "t/50-feature/$_.t" }
            qw(application-faults downloads front-threads psgi-body psgi-input psgix request-id response-spool timeouts unknown-length)
    ),
);
for my $test (@tests) {
    alarm 500;    # its own is 400
    local $ENV{TEST_OVER_TLS} = 1;
    my ($status, $out, $err) = run_command($^X, '-Mblib', $test);
    is $status, 0, $test or diag "$out$err";
}

done_testing;
