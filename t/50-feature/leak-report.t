# Devel::Leak::Object's example: a hundred requests that leak an object each, and the report when the worker ends, under
# plackup and under howdah; and that a server shows by itself which route grows.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Operator;
use Howdah::Test::Server;
use Howdah::Test::Traffic;
use Test::More;

my $app = <<'APP';
my $app = sub {
    my $ref = \my $x; $x = $ref;
    bless $ref, 'XXX';
    return [200, ['Content-Type' => 'text/plain'], ["ok\n"]];
};
APP

sub report_is_exact {
    my ($server, $file) = @_;
    Howdah::Test::Traffic::ask($server, '/') for 1 .. 100;
    $server->signal('TERM');
    $server->wait_for_exit;
    my $said = join '', $server->log =~ /worker 0 pid \d+: ([^\n]*\n)/g;
    is $said,
        "Tracked objects by class:\n\tXXX" . ' ' x 38 . "100\n\nSources of leaks:\nXXX\n   100 from $file line: 3\n";
    return;
}

subtest 'howdah --leak-report' => sub {
    my $server = Howdah::Test::Server->start(app => $app, options => ['--workers', 1, '--leak-report']);
    report_is_exact($server, $server->dir . '/app.psgi');
};

subtest 'plackup -MHowdah::Leaks -s Howdah' => sub {
    my $dir  = File::Temp->newdir;
    my $file = "$dir/app.psgi";
    open my $out, '>', $file or die $!;
    print {$out} $app;
    close $out or die $!;
    for my $way (['-MHowdah::Leaks'], ['--leak-report=1']) {
        my $server = Howdah::Test::Server->start(
            command =>
                ['plackup', @$way, '-s', 'Howdah', '--max-workers=1', '-l', '127.0.0.1:0', '-E', 'deployment', $file],
            listen => undef
        );
        report_is_exact($server, $file);
    }
};

subtest 'the status and the metrics name the route that grows, and only that' => sub {
    my $operator = Howdah::Test::Operator->new;
    my $pages    = ['--status-path', '/status', '--metrics-path', '/metrics'];
    my $server   = Howdah::Test::Server->start(
              app => 'my @kept; sub { push @kept, [1] if $_[0]{PATH_INFO} =~ /cart/;'
            . ' $_[0]{"psgix.howdah.route"} = "search & find" if $_[0]{PATH_INFO} =~ /find/; push @kept, 1 if $_[0]{PATH_INFO} =~ /find/;'
            . ' [200, [], ["ok"]] }',
        options => ['--workers', 1, @$pages, $operator->options]
    );
    for my $n (1 .. 100) { Howdah::Test::Traffic::ask($server, $_) for "/cart/$n", '/quiet', "/find/$n" }
    my %growth = map { $_->{route} => $_ } @{$operator->status->{pools}[0]{growth}};
    is_deeply [sort keys %growth], ['/cart/*', 'search & find'];
    is sprintf('%.1f', $growth{'/cart/*'}{values}), '3.0', 'reference, array and number';
    my $metrics = Howdah::Test::Traffic::ask($server, '/metrics')->{body};
    like $metrics, qr/^howdah_route_growth_values\{route="\/cart\/\*"\} 3$/m;
    like $metrics, qr/^howdah_route_growth_values\{route="search & find"\} 1$/m;
    unlike $metrics, qr/quiet/;
    like Howdah::Test::Traffic::ask($server, '/status')->{body}, qr/Routes that grow.*search &amp; find/s;
};

done_testing;
