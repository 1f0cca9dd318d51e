# What an application does to the handle of its standard error costs no message of the server's, and of its own none behind the one that failed.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Server;
use Test::More;

my $APP = <<'PSGI';
use Encode ();
use PerlIO::encoding;
{
    package Tied;
    sub TIEHANDLE { return bless [] }
    sub PRINT { die "the tied handle dies\n" }
}
my %do = (
    strict => sub { local $PerlIO::encoding::fallback = Encode::FB_CROAK(); binmode STDERR, ':encoding(ascii)' or die },
    pop    => sub { binmode STDERR, ':pop' },
    tie    => sub { tie *STDERR, 'Tied' },
    wide   => sub { print {*STDERR} "wide \x{263a} print\n" },
    caught => sub { eval { print {*STDERR} "caught \x{263a} print\n" }; warn "behind it\n" },
    warn   => sub { warn "warned\n" },
    errors => sub { $_[0]{'psgi.errors'}->print("told\n") },
    die    => sub { die "it died\n" },
);
sub { $do{$_[0]{PATH_INFO} =~ s{^/}{}r}->($_[0]); [200, [], []] };
PSGI

# The status of each request, and what the log has of each in the end.
sub look {
    my ($name, $server, @cases) = @_;
    for my $case (@cases) {
        my ($path, $status, $said) = @$case;
        is +Howdah::Test::Client->ask($server, "GET /$path HTTP/1.0\r\n\r\n")->{status}, $status, "$name: $path";
        ok $server->wait_for_log(qr{^\S+ $said}m), '... is logged' if $said;
    }
    return;
}

sub start { return Howdah::Test::Server->start(app => $APP, options => ['--workers', 1]) }
my $worker = qr/worker \d+ pid \d+ request \w+ GET/;

my $server = start();
look(
    'an encoding that dies', $server,
    [strict => 200],
    [warn   => 200, qr{WARN  $worker /warn: warned$}m],
    [wide   => 500, qr{ERROR $worker /wide: the application failed: .*does not map to ascii}],
    [errors => 200, qr{INFO  $worker /errors: told$}m],
    [die    => 500, qr{ERROR $worker /die: the application failed: it died$}m],
    [wide   => 200, qr{INFO  $worker /wide: wide \xe2\x98\xba print$}m],
);
ok $server->wait_for_log(qr{WARN  $worker /wide: wide \xe2\x98\xba print$}m), 'what it has died of is told'
    or diag $server->log;
ok $server->wait_for_log(qr{WARN  $worker /wide: standard error had a layer that died}), '... and what follows'
    or diag $server->log;

$server = start();
look(
    'the application goes on', $server,
    [strict => 200],
    [caught => 200, qr{WARN  $worker /caught: caught \xe2\x98\xba print$}m],
    [die    => 500, qr{ERROR $worker /die: the application failed: it died$}m],
);
ok $server->wait_for_log(qr{/caught: behind it$}m), 'what was behind it is not lost'
    or diag $server->log;

$server = start();
look(
    'without any layer', $server,
    (map { [pop => 200] } 1 .. 3),
    [die => 500, qr{ERROR $worker /die: the application failed: it died$}m],
);

$server = start();
look(
    'a tied handle', $server,
    [tie  => 200],
    [warn => 500, qr{ERROR $worker /warn: the application failed: the tied handle dies$}m],
    [die  => 500, qr{ERROR $worker /die: the application failed: it died$}m],
);

done_testing;
