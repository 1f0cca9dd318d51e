# howdah leaks: ten applications with a leak each, which the report names by class or route, and by line; and the same
# applications mended, of which it says nothing.
use strict;
use warnings;
use lib 't/lib';

use Cwd qw(abs_path);
use File::Path qw(make_path);
use File::Temp ();
use Howdah::Test::File qw(write_file);
use Howdah::Test::Operator;
use Howdah::Test::Server;
use Howdah::Test::Traffic;
use JSON::PP qw(decode_json);
use Test::More;

# What is found of each: objects by class and line, kinds by class and line, or a route.
my @cases = (
    [closure => 'kind Closure line 8', qw(/)],
    [cache   => 'object Session line 7', qw(/)],
    [dbi     => 'kind DBI::st', qw(/)],
    [events  => 'object Handler line 11', qw(/)],
    [moose   => 'object Node line 12; object Node line 13', qw(/)],
    [route   => 'route /orders/*', qw(/ /orders/17 /orders /cart /help/faq)],
    [tied    => 'object Register line 7', qw(/)],
    [handle  => 'kind IO::File', qw(/)],
    [string  => 'route /', qw(/)],
    [xs      => 'kind Digest::MD5', qw(/)],
);

sub report {
    my ($name, $mended, @paths) = @_;
    my $operator = Howdah::Test::Operator->new;
    my $server   = Howdah::Test::Server->start(
        file    => abs_path("t/apps/leaks/$name.psgi"),
        options => ['--workers', 1, $operator->options],
        env     => {MENDED => $mended}
    );
    for my $path (@paths) { Howdah::Test::Traffic::ask($server, $path) for 1 .. 20 }    # caches fill
    my $requests = 64 * @paths;
    my @command  = ('leaks', '--json', '--requests', $requests, '--control', $operator->control);
    my ($status, $out, $err) = Howdah::Test::Traffic->during($server, \@paths, @command);
    is $status, 0, $name or diag $err, $server->log;
    return decode_json($out);
}

sub found {
    my $report = shift;
    my $line   = sub { my $place = shift; $place && $place->{line} ? " line $place->{line}" : '' };
    my @found =
        map { "object $_->{class}" . $line->($_->{caller} // $_->{place}) } grep { $_->{grows} } @{$report->{objects}};
    push @found,
        map { 'kind ' . ($_->{class} eq 'CODE' ? 'Closure' : $_->{class}) . $line->($_->{place}) } @{$report->{kinds}};
    return join '; ', sort(@found), map { "route $_->{route}" } @{$report->{routes}};
}

for my $case (@cases) {
    my ($name, $expected, @paths) = @$case;
    my $report = report($name, '', @paths);
    my $found  = found($report);
    like $found, qr/(?:^|; )\Q$expected\E(?:$|; )/, 'what leaks is found';
    is_deeply [map { $_->{route} } @{$report->{routes}}], [$expected =~ /^route (.*)/ ? $1 : $paths[0]],
        'and its route';
    cmp_ok $report->{requests}, '>=', 64 * @paths - 2, 'in as many requests as wanted, but for one that was under way';
    is found(report($name, 1, @paths)), '', 'nothing is said of it mended';
}

# A module that counts as installed, around the application: nobody of the application's has called it.
my $library = File::Temp->newdir;
make_path("$library/lib/perl5/Around");
write_file("$library/lib/perl5/Around.pm", <<'PM');
package Around;
my @kept;
sub keep { push @kept, bless [], 'Kept'; return }
sub wrap { my $app = shift; sub { keep(); $app->(@_) } }
package Around::Body;
sub getline { my $left = shift; Around::keep() if @$left; return shift @$left }
sub close { }
1;
PM
my $operator = Howdah::Test::Operator->new;
my $server   = Howdah::Test::Server->start(
    app     => 'use Around; Around::wrap(sub { [200, [], bless ["ok"], "Around::Body"] })',
    options => ['--workers', 1, '-I', "$library/lib/perl5", $operator->options]
);
my (undef, $out) = Howdah::Test::Traffic->during(
    $server, ['/'], 'leaks', '--json', '--requests', 20, '--control',
    $operator->control
);
is_deeply [map { [$_->{place}{line}, $_->{caller}] } grep { $_->{class} eq 'Kept' } @{decode_json($out)->{objects}}],
    [[3, undef]], 'the server is nobody\'s caller';

done_testing;
