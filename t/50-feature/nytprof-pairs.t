# howdah profile --nytprof and what may happen to a server meanwhile: a reload, an upgrade, a stop, a load in the worker;
# with a CGI script that is kept; and below plackup, which has no second zygote.
use strict;
use warnings;
use lib 't/lib';

use Cwd ();
use File::Temp ();
use Howdah::Test::File qw(write_file);
use Howdah::Test::Load;
use Howdah::Test::Operator;
use Howdah::Test::Server;
use Howdah::Test::Traffic;
use Test::More;

plan skip_all => 'needs Devel::NYTProf' if !eval { require Devel::NYTProf::Core; 1 };

my $dir = File::Temp->newdir;
my $APP = 'my $app = do "./t/apps/load.psgi" or die; sub { $app->(@_) }';

# What is done when the guest is there, options, what the command says in the end, and whether there is a file.
my @cases = (
    ['a reload', [], sub { ($_[0]->ask('reload'))[0] == 0 }, qr/has served \d+ requests/],
    ['a load in the worker', ['--no-preload'], sub { 1 }, qr/has served \d+ requests/],
    ['END blocks', ['--full-destruct'], sub { 1 }, qr/has served \d+ requests/],
    ['fewer workers', [], sub { ($_[0]->ask('workers', 1))[0] == 0 }, qr/has served \d+ requests/],
    ['an upgrade', [], sub { ($_[0]->ask('upgrade'))[0] == 0 }, qr/has died|has ended|stopping|does not answer/],
);
for my $case (@cases) {
    my ($name, $options, $event, $words) = @$case;
    subtest $name => sub {
        my $operator = Howdah::Test::Operator->new;
        my $server =
            Howdah::Test::Server->start(app => $APP, options => ['--workers', 2, @$options, $operator->options]);
        my $load    = Howdah::Test::Load->start($server, connections => 4);
        my $profile = Howdah::Test::Traffic->begin(
            qw(profile --nytprof --seconds 3 --control), $operator->control,
            '--output', "$dir/p"
        );
        ok $server->wait_until(sub { $server->workers == 3 }), 'there is one more worker';
        ok $event->($operator), 'it happens';
        my ($status, $out, $err) = $profile->outcome;
        like $out . $err, $words, 'what is said';
        is !-e "$dir/p.nytprof", !!$status, 'and whether there is a file';
        my $result = $load->stop->finish;
        is_deeply $result->{problems}, [], 'no request is lost';
        is_deeply [keys %{$result->{status}}], [200];
        unlink "$dir/p.nytprof";
    };
}

subtest 'a CGI script that is kept' => sub {
    my $root = Cwd::getcwd();
    write_file(
        "$dir/load.cgi",
        "#!/usr/bin/perl\nuse Plack::Handler::CGI;\nmy \$app = do '$root/t/apps/load.psgi' or die;\n"
            . "Plack::Handler::CGI->new->run(\$app);\n"
    );
    chmod 0755, "$dir/load.cgi" or die $!;
    my $operator = Howdah::Test::Operator->new;
    my $server   = Howdah::Test::Server->start(
        app     => 'use Howdah::CGI::Keep; Howdah::CGI::Keep->new(root => $ENV{CGI_SCRIPT})->to_app',
        env     => {CGI_SCRIPT => "$dir/load.cgi"},
        options => ['--workers', 1, $operator->options]
    );
    my $load = Howdah::Test::Load->start($server, connections => 4);
    my ($status, $out, $err) = $operator->ask(qw(profile --nytprof --seconds 3 --output), "$dir/p");
    is $status, 0, 'the worker lives';
    like $out . $err, qr/has served [1-9]\d* requests/, '... and serves';
    is_deeply $load->stop->finish->{problems}, [], 'no request is lost';
    unlink "$dir/p.nytprof";
};

subtest 'a stop' => sub {
    my $operator = Howdah::Test::Operator->new;
    my $server   = Howdah::Test::Server->start(app => $APP, options => ['--workers', 1, $operator->options]);
    my $profile  = Howdah::Test::Traffic->begin(
        qw(profile --nytprof --seconds 30 --control), $operator->control,
        '--output', "$dir/p"
    );
    ok $server->wait_until(sub { $server->workers == 2 }), 'there is one more worker';
    is $server->stop, 0, 'does not wait for it';
    my ($status) = $profile->outcome;
    isnt $status, 0, 'and the command ends';
    ok !-e "$dir/p.nytprof", 'without a file';
};

subtest 'below plackup' => sub {
    my ($plackup) = grep { -x } map { "$_/plackup" } split /:/, $ENV{PATH} or plan skip_all => 'no plackup';
    my $operator  = Howdah::Test::Operator->new;
    my $server    = Howdah::Test::Server->start(
        app     => $APP,
        command => [$^X, $plackup, '-s', 'Howdah', '-E', 'deployment'],
        options => [$operator->options, '--listen', '127.0.0.1:0']
    );
    my ($status, undef, $err) = $operator->ask('profile', '--nytprof', '--output', "$dir/p");
    is $status, 1;
    like $err, qr/plackup has loaded the application.*start the server by howdah/, 'it says why not, and what to do';
};

done_testing;
