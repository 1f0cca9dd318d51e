# Plack's own suite for servers, whole: under plackup -s Howdah, through Plack::Handler::Howdah as the suite does it,
# and against the stand-alone program.
use strict;
use warnings;
use lib 't/lib';

use HTTP::Request;
use Howdah::Test::Server;
use Plack::LWPish;
use Plack::Test::Server;
use Plack::Test::Suite;
use Test::More;

# The client's side of the suite, as its run_server_tests has it.
sub run_against {
    my $server = shift;
    my $agent  = Plack::LWPish->new(no_proxy => ['127.0.0.1']);
    for my $number (0 .. $#Plack::Test::Suite::TEST) {
        my ($name, $client) = @{$Plack::Test::Suite::TEST[$number]};
        note $name;
        $client->(sub {
            my $request = shift;
            $request->uri->port($server->port);
            $request->header('X-Plack-Test' => $number);
            return $agent->request($request);
        });
    }
    return;
}

my $app = <<'PSGI';
use Plack::Middleware::Lint;
use Plack::Test::Suite;
Plack::Middleware::Lint->wrap(Plack::Test::Suite->test_app_handler);
PSGI

subtest 'howdah' => sub {
    my $server = Howdah::Test::Server->start(app => $app, options => ['--workers', 2]);
    run_against($server);
    is $server->stop, 0;
};

subtest 'howdah --no-preload' => sub {
    my $server = Howdah::Test::Server->start(app => $app, options => ['--workers', 1, '--no-preload']);
    run_against($server);
};

subtest 'plackup -s Howdah' => sub {
    my $server = Howdah::Test::Server->start(
        app     => $app,
        command =>
            [$^X, (grep { -x } map { "$_/plackup" } split /:/, $ENV{PATH})[0], '-s', 'Howdah', '-E', 'deployment'],
        options => ['--listen', '127.0.0.1:0', '--max-workers', 2],
    );
    run_against($server);
    is $server->stop, 0;
};

subtest 'Plack::Test on a server, whether that binds the port or is given a socket that listens' => sub {
    my $log = File::Temp->new;
    open my $stderr, '>&', \*STDERR or die $!;
    open STDERR, '>', "$log" or die $!;
    local $ENV{PLACK_SERVER} = 'Howdah';
    for my $listens (0, 1) {
        my $test = Plack::Test::Server->new(sub { [200, [], ["here is $_[0]{SERVER_PORT}"]] }, listen => $listens);
        is $test->request(HTTP::Request->new(GET => '/'))->content, 'here is ' . $test->port, "listen => $listens";
    }
    open STDERR, '>&', $stderr or die $!;
};

subtest 'run_server_tests' => sub {
    my $log = File::Temp->new;
    open my $stderr, '>&', \*STDERR or die $!;
    open STDERR, '>', "$log" or die $!;    # one of its tests dies on purpose, and says so
    Plack::Test::Suite->run_server_tests('Howdah', undef, undef, max_workers => 2);
    open STDERR, '>&', $stderr or die $!;
};

done_testing;
