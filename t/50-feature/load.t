# A short run of the usual load generators: not one request fails. How fast it is, bench/ measures.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Server;
use Test::More;

my $app = 'sub { [200, ["Content-Type" => "text/plain"], ["hello world"]] }';

sub program {
    my $name = shift;
    return (grep { -x } map { "$_/$name" } split /:/, $ENV{PATH})[0];
}

sub output { my @command = @_; open my $pipe, '-|', @command or die "$command[0]: $!"; local $/; return scalar <$pipe> }

plan skip_all => 'neither wrk nor ab is installed' if !program('wrk') && !program('ab');

for my $threads (1, 2) {
    my @options = ('--workers', 4, '--front-threads', $threads, '--spread-connections');
    my $server  = Howdah::Test::Server->start(app => $app, options => \@options);
    my $url     = $server->url . '/';

    for my $connections (8, 64) {
        my $wrk    = program('wrk') or last;
        my $report = output($wrk, '-t1', "-c$connections", '-d2s', $url);
        unlike $report, qr/Non-2xx|Socket errors/, "wrk -c$connections, $threads front threads" or diag $report;
        my ($requests) = $report =~ /(\d+) requests in/;
        cmp_ok $requests // 0, '>', 500, 'requests enough';
        note $report =~ /(Requests\/sec:.*)/;
    }
    for my $keep (['-k'], []) {
        my $ab     = program('ab') or last;
        my $report = output($ab, '-q', @$keep, '-c10', '-n5000', $url);
        like $report, qr/Complete requests: +5000\nFailed requests: +0\n/, "ab @$keep -c10, $threads front threads";
        like $report, qr/Keep-Alive requests: +5000/, 'all on kept connections' if @$keep;
        unlike $report, qr/Non-2xx/, 'all of them 200';
        note $report =~ /(Requests per second:.*)/;
    }
    is $server->stop, 0;
}
done_testing;
