# h2spec (https://github.com/summerwind/h2spec), where it is installed: `go install github.com/summerwind/h2spec/cmd/h2spec@latest`.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Command qw(run_command);
use Howdah::Test::Server;
use Howdah::Test::Tls;
use Test::More;

plan skip_all => 'needs h2spec' if !grep { -x "$_/h2spec" } split /:/, $ENV{PATH};
plan skip_all => 'needs openssl' if !Howdah::Test::Tls->is_installed;

my $server = Howdah::Test::Server->start(
    file    => 't/apps/echo.psgi',
    listen  => undef,
    options => ['-l', 'tls:127.0.0.1:0', '-l', '127.0.0.1:0', Howdah::Test::Tls->new->options],
);
my ($tls, $plain) = map { /:(\d+)/ } $server->urls;

# Without TLS a preface that is none is a bad request of HTTP/1, and answered before the connection ends: one test takes that
# for no end.
for (['over TLS', $tls, [qw(-t -k)], 145], ['without', $plain, [], 144]) {
    my ($what, $port, $how, $passed) = @$_;
    my ($status, $out, $err) = run_command('h2spec', @$how, '-h', '127.0.0.1', '-p', $port);
    like $out, qr/^145 tests, $passed passed/m, $what or diag "$out$err";
    my @failed = $out =~ /^ +\xc3\x97 (.+)$/mg;
    is_deeply \@failed, $passed == 145 ? [] : ['2: Sends invalid connection preface'], 'and what is not';
}

done_testing;
