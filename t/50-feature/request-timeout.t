# --request-timeout under load: the client of a stuck request gets 504, the log the request and where in the Perl code its
# worker is, another worker takes the place, and nobody else notices.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Load;
use Howdah::Test::Server;
use Test::More;
use Time::HiRes qw(time);

my $app = <<'PSGI';
my $load = do './t/apps/load.psgi' or die;
sub wait_for_lock {
    my $patience = shift;
    select undef, undef, undef, 0.05 for 1 .. 20 * $patience;    # the fourth line
}
sub deaf { local $SIG{USR2} = 'IGNORE'; wait_for_lock(@_) }
my %do = (
    '/stuck' => sub { wait_for_lock(600); [200, [], ['too late']] },
    '/deaf'  => sub { deaf(600); [200, [], ['too late']] },
    '/slow'  => sub {
        sub { my $writer = shift->([200, []]); for ('now ', 'and ', 'then') { $writer->write($_); wait_for_lock(1) } }
    },
);
sub { my $env = shift; my $do = $do{$env->{PATH_INFO}} // $load; $do->($env) };
PSGI

my @options = ('--workers', 3, '--request-timeout', '1500ms');
my $server  = Howdah::Test::Server->start(app => $app, options => \@options);
my @load    = map { Howdah::Test::Load->start($server, connections => 6, fresh => $_) } 0, 1;

sub ask { return Howdah::Test::Client->ask($server, "GET $_[0] HTTP/1.1\r\nHost: x\r\n\r\n") }

sub is_replaced {
    my ($path, @before) = @_;
    my $gone = $server->wait_until(sub {
        my $gone = grep { !kill 0, $_ } @before;
        $gone;
    });
    ok $gone, "$path: the worker is gone";
    return ok $server->wait_until(sub { $server->workers == 3 }), '... and replaced';
}

for my $path ('/stuck?id=7', '/deaf') {
    my @before   = $server->workers;
    my $since    = time;
    my $response = ask($path);
    is $response->{status}, 504, "$path: gateway timeout (RFC 9110 15.6.5)";
    cmp_ok time - $since, '>=', 1.4, '... not before its time';
    is_replaced($path, @before);
}
like $server->log, qr{no answer within --request-timeout: GET /stuck\?id=7 from 127\.0\.0\.1; answered 504},
    'the log names the request';
like $server->log,
    qr/worker \d+ is here:\n.*: +at \S*app\.psgi line 4, in \S+::wait_for_lock\n(?:.*: +at \S*app\.psgi line .*\n){2}/,
    '... and where it was stuck';

is ask('/slow')->{body}, 'now and then', 'a response that has begun may take its time';
for my $result (map { $_->stop->finish } @load) {
    is_deeply $result->{problems}, [];
    is_deeply [keys %{$result->{status}}], [200], "$result->{requests} other requests";
}
is $server->stop, 0;

done_testing;
