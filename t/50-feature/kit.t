# One application of the kit, five ways: each example of examples/kit is served as it says, and answers the same.
use strict;
use warnings;
use lib 't/lib';

use File::Temp ();
use Howdah::Test::Agent;
use Howdah::Test::Command qw(howdah_bin run_command);
use Howdah::Test::Server;
use Test::More;

for my $module (qw(Router::Simple Plack::Middleware::Session::Cookie)) {
    eval "require $module; 1" or plan skip_all => "$module is not installed";    ## no critic (ProhibitStringyEval)
}

my $dir = File::Temp->newdir;
$ENV{GUESTBOOK}        = "$dir/guests.txt";
$ENV{GUESTBOOK_SECRET} = 'a secret of this test';
$ENV{HOWDAH_BIN}       = howdah_bin();

# What a browser does with the guest book.
sub drive {
    my $agent = Howdah::Test::Agent->new($_[0]->url);
    unlink $ENV{GUESTBOOK};
    like $agent->get('/')->decoded_content, qr{<p>Visit 1</p>\n<form method="post" action="/entry">};
    my $signed = $agent->post('/entry', [text => "\xc3\xa9t\xc3\xa9 <b>"]);
    is join(' ', $signed->code, $signed->header('Location')), '303 /', 'a form, and back';
    my $page = $agent->get('/');
    like $page->decoded_content, qr{<li>\x{e9}t\x{e9} &lt;b&gt;</li>.*Visit 2}s, 'what was written, and the session';
    is $agent->get('/entry/1')->content, qq({"line":1,"text":"\xc3\xa9t\xc3\xa9 <b>"}), 'JSON';
    is $agent->get('/entry/2')->content, "There is no entry 2.\n";
    is join(' ', $agent->curl('/entry/1', '-X', 'DELETE')), "405 Method Not Allowed\n";
    return $agent;
}

subtest 'the value of a .psgi file' => sub {
    drive(Howdah::Test::Server->start(file => 'examples/kit/guestbook.psgi', options => ['--workers', 2]));
    my ($plackup) = grep { -x } map { "$_/plackup" } split /:/, $ENV{PATH};
    drive(Howdah::Test::Server->start(
        file    => 'examples/kit/guestbook.psgi',
        command => [$^X, $plackup, '-s', 'Howdah', '-l', '127.0.0.1:0', '-E', $_],
    )) for 'deployment', 'development';
};

subtest 'stand-alone: start(workers => 10)' => sub {
    my $server = Howdah::Test::Server->start(command => [$^X, 'examples/kit/guestbook.pl', 0]);
    like $server->log, qr{serving examples/kit/guestbook\.pl on }, 'under its own name';
    drive($server);
    ok $server->wait_until(sub { $server->workers == 10 }), 'ten workers';
    is $server->stop, 0;
};

subtest 'from the command line: kit FILE, with modules of -I' => sub {
    my $file  = "$dir/mine.psgi";
    my $write = sub {
        open my $out, '>', $file or die $!;
        print {$out} "use Howdah::Kit; use Guestbook; Howdah::Kit->psgi_app(sub { '$_[0] ' . Guestbook->can('sign') })";
        return close $out;
    };
    $write->('first');
    my $code   = "kit '$file', workers => 3, listen => '127.0.0.1:0'";
    my $server = Howdah::Test::Server->start(command => [$^X, '-Iexamples/kit/lib', '-MHowdah::Kit', '-e', $code]);
    my $agent  = Howdah::Test::Agent->new($server->url);
    like $agent->get('/')->content, qr/^first CODE/;
    ok $server->wait_until(sub { $server->workers == 3 }), 'three workers';
    $write->('second');
    $server->signal('HUP');
    ok $server->wait_until(sub { $agent->get('/')->content =~ /^second / }), 'and it loads the file anew';
    is $server->stop, 0;
    my $hello = "kit 'examples/kit/hello.psgi', listen => '127.0.0.1:0', workers => 1";
    $server = Howdah::Test::Server->start(command => [$^X, '-MHowdah::Kit', '-e', $hello]);
    is + (Howdah::Test::Agent->new($server->url)->curl('/?name=Ada'))[1], "Hello Ada\n", 'the shortest example';
};

subtest 'a mistake among the options is the server\'s to explain' => sub {
    my ($status, undef, $err) = run_command($^X, '-MHowdah::Kit', '-e', 'kit "examples/kit/hello.psgi", wrokers => 10');
    isnt $status, 0;
    like $err, qr/--wrokers.*--workers/s;
};

done_testing;
