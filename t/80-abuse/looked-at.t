# Operators look for leaks and at the heap while requests come without a pause: none is lost, and no worker dies.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Operator;
use Howdah::Test::Server;
use Howdah::Test::Traffic;
use Test::More;

my ($ab) = grep { -x } map { "$_/ab" } split /:/, $ENV{PATH};
plan skip_all => 'ab is not installed' if !$ab;

my $app = 'my %kept; sub { my $thing = bless {}, "Thing"; $kept{rand 50} = $thing; [200, [], ["ok"]] }';

# What happens meanwhile, and whether workers are the same afterwards.
for my $case (
    ['in workers that stay', 1, []],
    ['in workers that are renewed', 0, ['--max-requests', 100]],
    )
{
    my ($name, $stay, $options) = @$case;
    my $operator = Howdah::Test::Operator->new;
    my $server   = Howdah::Test::Server->start(app => $app, options => ['--workers', 3, @$options, $operator->options]);
    my @workers  = sort $server->workers;
    my $url      = $server->url . '/';
    open my $load, '-|', $ab, '-q', '-k', '-c', 8, '-n', 6000, $url or die "cannot run ab: $!";
    for my $round (1 .. 3) {
        my $look = Howdah::Test::Traffic->begin('leaks', '--seconds', '300ms', '--control', $operator->control);
        my ($status, $out, $err) = $operator->ask('heap', '--why', 'Thing');
        like $out, qr/ objects of Thing in worker \d+ \(pid \d+\)/m, "$name: the heap" or diag $err;
        ($status, $out, $err) = $look->outcome;
        like $out, qr/ objects blessed$/m, "$name: leaks" or diag $err;
    }
    my $said = do { local $/; <$load> };
    close $load or die 'ab failed';
    like $said, qr/^Complete requests:\s+6000$/m, "$name: all requests";
    like $said, qr/^Failed requests:\s+0$/m, "$name: none lost";
    unlike $said, qr/^Non-2xx/m, "$name: none refused";
    is_deeply [sort $server->workers], \@workers, "$name: they have lived on" if $stay;
    unlike $server->log, qr/killed|died|signal/, "$name: nobody has crashed";
}

done_testing;
