# The ways of PSGI to run CGI scripts, under plackup -s Howdah: Plack::App::CGIBin and Plack::App::WrapCGI, which compile a
# script into the worker, or execute it from there. Of the scripts with what CGI scripts trip over, those for which these
# modules do what a process of its own would.
use strict;
use warnings;
use lib 't/lib';

use Cwd qw(getcwd);
use Howdah::Test::Client;
use Howdah::Test::Server;
use Howdah::Test::Traps;
use Test::More;

for my $module (qw(CGI::Compile CGI::Emulate::PSGI)) {
    eval "require $module; 1" or plan skip_all => "$module is not installed";    ## no critic (ProhibitStringyEval)
}
my ($plackup) = grep { -x } map { "$_/plackup" } split /:/, $ENV{PATH};
my $scripts   = getcwd() . '/t/cgi/scripts';
my $traps     = Howdah::Test::Traps->new(mode => 'exec');

# In the order of the table: what these read and print is in handles of their own, and they change the directory.
my @COMPILED = qw(directory.cgi env.cgi stdout-caught.cgi input.cgi input-part.cgi cgi-object.cgi location.cgi
    status.cgi prototype.cgi large.cgi upload.cgi);

# Not: what depends on variables that these modules do not set, on permissions, and what has not the form of a CGI script.
my %NOT_EXECUTED = map { $_ => 1 }
    qw(arguments.cgi background.cgi head-broken.cgi head-unended.cgi head-typeless.cgi .hidden.cgi
    locale.cgi meta.cgi names.cgi not-executable.cgi process.cgi redirect.cgi redirect-loop.cgi silent.cgi);

sub plackup {
    my $app = shift;
    return Howdah::Test::Server->start(
        app     => "use Plack::Builder; use Plack::App::CGIBin; use Plack::App::WrapCGI; builder { $app }",
        command => [$^X, $plackup, '-s', 'Howdah'],
        options => ['--listen', '127.0.0.1:0', '-E', 'deployment', '--workers', 1],
    );
}

subtest 'compiled into the worker' => sub {
    my $server = plackup("mount '/cgi' => Plack::App::CGIBin->new(root => '$scripts')->to_app");
    my ($worker) = $server->workers;
    $traps->check($server->port, sub { $server->log }, @COMPILED);
    is_deeply [$server->workers], [$worker], 'by one worker all the time';
    is $server->stop, 0;
};

subtest 'executed from the worker' => sub {
    my $server   = plackup("mount '/cgi' => Plack::App::CGIBin->new(root => '$scripts', exec_cb => sub { 1 })->to_app");
    my ($worker) = $server->workers;
    my @rest     = grep { !$NOT_EXECUTED{$_} && !defined $traps->row($_)->{log} } $traps->scripts;
    cmp_ok scalar @rest, '>', 40, 'most of them';
    $traps->check($server->port, sub { $server->log }, @rest);
    is_deeply [$server->workers], [$worker], 'by one worker all the time, whose children they are';
    is $server->stop, 0;
};

subtest 'one script, in both ways' => sub {
    my $server = plackup("mount '/in' => Plack::App::WrapCGI->new(script => '$scripts/data.cgi')->to_app;"
            . "mount '/out' => Plack::App::WrapCGI->new(script => '$scripts/data.cgi', execute => 1)->to_app;");
    for my $path (qw(/in /out /in /out)) {
        my $body = Howdah::Test::Client->ask($server, "GET $path HTTP/1.1\r\nHost: x\r\n\r\n")->{body};
        like $body, qr/^first: one\nat line 1\n.*\ntwo\nthree\n\z/, $path;
    }
    is $server->stop, 0;
};

done_testing;
