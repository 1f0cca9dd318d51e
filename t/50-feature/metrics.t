# Metrics for Prometheus, and what load balancers ask: both come from the front.
use strict;
use warnings;
use lib 't/lib';

use File::Temp ();
use Howdah::Test::Client;
use Howdah::Test::Server;
use Test::More;
use Time::HiRes qw(sleep);

my $app = <<'PSGI';
sub {
    my $path = $_[0]{PATH_INFO};
    select undef, undef, undef, $1 if $path =~ m{^/slow/([\d.]+)};
    return [$path =~ m{^/(\d{3})$} ? $1 : 200, [], ["app $path"]];
};
PSGI
my @pages = qw(--metrics-path /metrics --health-path /health --ready-path /ready);

sub get {
    my ($server, $target, @headers) = @_;
    return Howdah::Test::Client->ask($server, join "\r\n", "GET $target HTTP/1.1", 'Host: localhost', @headers, '', '');
}

# Every sample by its name and labels; dies of what is no line of the format.
sub samples {
    my $text = shift;
    my %value;
    for my $line (split /\n/, $text) {
        next if $line =~ /^# (?:HELP|TYPE|UNIT) [a-z\d_]+ \S|^# EOF$/;
        $line =~ /^([a-z\d_]+(?:\{(?:[a-z_]+="(?:[^"\\\n]|\\.)*",?)*\})?) (-?[\d.e+-]+)$/ or die "no sample: $line";
        die "twice: $1" if exists $value{$1};
        $value{$1} = $2;
    }
    return \%value;
}

subtest 'what is counted' => sub {
    my $server = Howdah::Test::Server->start(app => $app, options => ['--workers', 2, @pages]);
    get($server, $_) for qw(/a /b /404 /404 /500);
    Howdah::Test::Client->ask($server, "BREW / HTTP/1.1\r\nHost: x\r\n\r\n");
    Howdah::Test::Client->ask($server, "no request\r\n\r\n");
    Howdah::Test::Client->ask($server, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n");
    my $response = get($server, '/metrics');
    is $response->{headers}{'content-type'}[0], 'text/plain; version=0.0.4; charset=utf-8';
    my $value    = samples($response->{body});
    my %expected = (
        'howdah_requests_total{method="GET",class="2xx"}'    => 2,
        'howdah_requests_total{method="GET",class="4xx"}'    => 2,
        'howdah_requests_total{method="GET",class="5xx"}'    => 1,
        'howdah_requests_total{method="POST",class="4xx"}'   => 1,
        'howdah_requests_total{method="OTHER",class="2xx"}'  => 1,
        'howdah_requests_total{method="OTHER",class="4xx"}'  => 1,
        'howdah_request_failures_total{cause="bad_request"}' => 1,
        'howdah_request_failures_total{cause="too_large"}'   => 1,
        'howdah_request_duration_seconds_count'              => 8,
        'howdah_queue_wait_seconds_count'                    => 6,
        'howdah_workers{state="idle"}'                       => 2,
        'howdah_workers_target'                              => 2,
        'howdah_worker_spawns_total'                         => 2,
        'howdah_generation'                                  => 1,
        'howdah_ready'                                       => 1,
    );
    is $value->{$_}, $expected{$_}, $_ for sort keys %expected;
    ok((grep { /^howdah_worker_memory_bytes\{worker="\d+"\}$/ } keys %$value) == 2, 'memory of each worker');
    ok !(grep { /BREW/ } keys %$value), 'no label is what a client sent';
};

subtest 'OpenMetrics for those who ask' => sub {
    my $server   = Howdah::Test::Server->start(app => $app, options => ['--workers', 1, @pages]);
    my $response = get($server, '/metrics', 'Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.3');
    like $response->{headers}{'content-type'}[0], qr{^application/openmetrics-text; version=1\.0\.0};
    like $response->{body}, qr/# EOF\n\z/;
    ok samples($response->{body});
};

subtest 'promtool finds no fault' => sub {
    plan skip_all => 'there is no promtool (Debian: prometheus)' if !grep { -x "$_/promtool" } split /:/, $ENV{PATH};
    my $server = Howdah::Test::Server->start(app => $app, options => ['--workers', 1, @pages]);
    get($server, '/') for 1 .. 3;
    my $file = File::Temp->new;
    print {$file} get($server, '/metrics')->{body};
    close $file or die $!;
    is `promtool check metrics <$file 2>&1`, '';
};

subtest 'off unless asked for, and closed to others' => sub {
    my $server = Howdah::Test::Server->start(app => $app, options => ['--workers', 1]);
    is get($server, $_)->{body}, "app $_" for qw(/metrics /health /ready);
    my $open = Howdah::Test::Server->start(app => $app, options => ['--workers', 1, @pages]);
    is get($open, '/metrics', 'X-Forwarded-For: 192.0.2.1')->{status}, 403, 'metrics are for this machine';
    is get($open, $_, 'X-Forwarded-For: 192.0.2.1')->{status}, 200, "$_ is for everybody" for qw(/health /ready);
};

subtest 'health and readiness' => sub {
    my $server = Howdah::Test::Server->start(app => $app, options => ['--workers', 1, @pages]);
    is get($server, $_)->{body}, "ready\n", $_ for qw(/health /ready);
    my $busy = Howdah::Test::Client->asking($server, '/slow/1');
    sleep 0.2;
    is get($server, '/ready')->{status}, 200, 'a server whose workers are busy is ready';
    is $busy->response->{status}, 200;

    $server->write_file('app.psgi', 'warn "second\n"; select undef, undef, undef, 1; ' . $app);
    $server->signal('HUP');
    $server->wait_for_log(qr/second/);
    is get($server, '/ready')->{body}, "reloading\n", 'and so is one that reloads';
    $server->wait_until(sub { get($server, '/ready')->{body} eq "ready\n" });

    my ($kept, $last) = map { Howdah::Test::Client->new($server) } 1 .. 2;
    $kept->write("GET /ready HTTP/1.1\r\nHost: x\r\n\r\n");
    is $kept->response->{status}, 200;
    $last->write("GET /slow/1 HTTP/1.1\r\nHost: x\r\n\r\n");
    sleep 0.2;
    $server->signal('TERM');
    sleep 0.1;
    $kept->write("GET /ready HTTP/1.1\r\nHost: x\r\n\r\n");
    my $response = $kept->response;
    is "$response->{status} $response->{body}", "503 draining\n", 'one that stops is not';
    is $last->response->{status}, 200;
    is $server->wait_for_exit, 0;
};

subtest 'no worker, no readiness' => sub {
    my $fails = <<'PSGI';
require Howdah;
Howdah->after_fork(sub { -e "$ENV{FLAG}" and exit 3 });
sub { [200, [], ['ok']] };
PSGI
    my $flag = File::Temp::tmpnam();
    my $server =
        Howdah::Test::Server->start(app => $fails, options => ['--workers', 1, @pages], env => {FLAG => $flag});
    is get($server, '/ready')->{status}, 200;
    open my $out, '>', $flag or die $!;
    close $out or die $!;
    kill KILL => $server->workers;
    ok $server->wait_until(sub { get($server, '/ready')->{body} eq "failing\n" }), 'failing';
    is get($server, '/ready')->{status}, 503;
    is get($server, '/health')->{status}, 200, 'but alive';
    unlink $flag;
    ok $server->wait_until(sub { get($server, '/ready')->{status} == 200 }), 'ready again';
};

done_testing;
