package Howdah::Test::Acme;

# A server that has its certificate from an authority, and keeps what it has in the operator's directory.
#
#   my $server = serve_by_acme($operator, $listen, '--acme', 'a.example', $authority->options);    # $listen as in Howdah::Test::Server
use strict;
use warnings;

use Exporter qw(import);
use Howdah::Test::Server;

our @EXPORT_OK = qw(serve_by_acme);

sub serve_by_acme {
    my ($operator, $listen, @options) = @_;
    return Howdah::Test::Server->start(
        app     => 'sub { [200, [], ["hello"]] }',
        listen  => $listen,
        env     => {TEST_OVER_TLS => undef},
        options => ['--workers', 1, '--acme-dir', $operator->dir . '/acme', $operator->options, @options]
    );
}

1;
