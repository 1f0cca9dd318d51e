# howdah trace exec while ab asks for a CGI script: each request has run it where scripts are executed, and none where they
# are kept.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Command qw(run_howdah);
use Howdah::Test::Operator;
use Howdah::Test::Scripts;
use Howdah::Test::Traffic;
use Test::More;

my ($ab) = grep { -x } map { "$_/ab" } split /:/, $ENV{PATH};
plan skip_all => 'ab is not installed' if !$ab;

use constant REQUESTS => 200;

my $scripts =
    Howdah::Test::Scripts->new('index.cgi' => qq{#!/usr/bin/perl\nprint "Content-Type: text/plain\\n\\nhello\\n";\n});

# What it counts, and the table, while the script is asked for so often.
sub traced {
    my ($mode, $by) = @_;
    my $operator = Howdah::Test::Operator->new;
    my $server   = $scripts->serve($mode, ['workers=2'], $operator->options);
    my $trace    = Howdah::Test::Traffic->begin(
        qw(trace exec --seconds 50 --by), $by, '--control',
        $operator->control
    );
    $server->wait_until(sub { $trace->said =~ /^tracing /m || $trace->is_over }, 30);
    my $said = `$ab -q -c 4 -n ${\REQUESTS} @{[$server->url]}/c/index.cgi 2>&1`;
    like $said, qr/^Complete requests:\s+${\REQUESTS}$/m, "$mode: all requests";
    like $said, qr/^Failed requests:\s+0$/m, "$mode: none lost";
    unlike $said, qr/^Non-2xx/m, "$mode: none refused";
    sleep 1;
    $trace->interrupt;
    my ($status, $out, $err) = $trace->outcome;
    is $status, 0 or diag $err;
    return split /\n/, $out;
}

for my $by (qw(connector bpftrace)) {
    subtest "by $by" => sub {
        my (undef, undef, $refused) = run_howdah(qw(trace exec --all --seconds 10ms --by), $by);
        plan skip_all => $refused if $refused =~ /does not tell of processes|does not work here/;
        my ($head, @rows) = traced('exec', $by);
        is $head, 'WHO                  WHAT                 COUNT';
        my %count = map { /^(.+?) +(\S+) +(\d+)$/ ? ("$1 $2" => $3) : ($_ => '?') } @rows;
        my $gone  = $by eq 'connector' && delete $count{'howdah (gone)'} || 0;
        is_deeply \%count, {'howdah index.cgi' => REQUESTS - $gone}, "exec: each has run it ($gone were gone too soon)"
            or diag explain \@rows;
        is_deeply [traced('keep', $by)], [$head], 'keep: none has run anything';
    };
}

done_testing;
