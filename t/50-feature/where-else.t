# howdah where below plackup, before the first request, and beside workers that have no perl.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::File qw(write_file);
use Howdah::Test::Operator;
use Howdah::Test::Server;
use JSON::PP;
use Test::More;

my $APP      = 'package Shop; sub nap { sleep 60 } sub { nap(); [200, [], []] }';
my $GET      = "GET /nap HTTP/1.1\r\nHost: x\r\n\r\n";
my $operator = Howdah::Test::Operator->new;

# The answer once the first worker has a stack.
sub seen {
    my $server = shift;
    my $answer;
    my $found = $server->wait_until(
        sub {
            my (undef, $text) = $operator->ask('where', '--json');
            $answer = decode_json($text || '{}');
            return @{$answer->{workers}[0]{stack} // []};
        },
        10
    );
    ok $found, 'a worker is seen';
    return $answer;
}

sub start { return Howdah::Test::Server->start(options => [$operator->options, '--workers', 1, @{shift()}], @_) }

subtest 'below plackup' => sub {
    my ($plackup) = grep { -x } map { "$_/plackup" } split /:/, $ENV{PATH} or plan skip_all => 'no plackup';
    my $server =
        start(['--listen', '127.0.0.1:0'], app => $APP, command => [$^X, $plackup, '-s', 'Howdah', '-E', 'deployment']);
    my (undef, $idle) = $operator->ask('where');
    like $idle, qr/^worker 0, process \d+, generation 1: no request\n  waits for a request\n\z/;
    my $client = Howdah::Test::Client->new($server);
    $client->write($GET);
    my $answer   = seen($server);
    my ($worker) = @{$answer->{workers}};
    my @subs     = map { $_->{sub} } @{$worker->{stack}};
    is $subs[0], 'Shop::nap';
    is scalar @subs, 2, 'the stack ends with the application, and not with plackup' or diag explain \@subs;
    kill KILL => $worker->{pid};
};

subtest 'while a worker starts' => sub {
    my $app    = "use Howdah; Howdah->after_fork(sub { sleep 60 if -e \$ENV{FLAG} }); $APP";
    my $flag   = $operator->dir . '/flag';
    my $server = start([], app => $app, env => {FLAG => $flag});
    open my $out, '>', $flag or die $!;
    kill KILL => ($server->workers)[0];
    my ($worker) = @{seen($server)->{workers}};
    like $worker->{stack}[0]{file}, qr/app\.psgi$/, 'the hook in which it hangs';
    is_deeply [@$worker{qw(state request)}], ['waits', undef];
    kill KILL => $worker->{pid};
    unlink $flag;
};

subtest 'beside scripts' => sub {
    my $file = $operator->dir . '/hello.cgi';
    write_file($file, "#!/bin/sh\nexec sleep 60\n");
    chmod oct(755), $file;
    my $server  = start(['--cgi', "/hello=$file"], app => $APP);
    my $client  = Howdah::Test::Client->new($server);
    my $visitor = Howdah::Test::Client->new($server);
    $client->write($GET);
    $visitor->write("GET /hello?a=1 HTTP/1.1\r\nHost: x\r\n\r\n");
    my ($answer, $script);
    ok $server->wait_until(sub {
        $answer = seen($server);
        ($script) = grep { "@{$_->{command}}" =~ /^sleep 60$/ } @{$answer->{scripts}};
        }),
        'the script is seen';
    is $answer->{workers}[0]{stack}[0]{sub}, 'Shop::nap';
    is_deeply [@$script{qw(pool request)}], ['/hello', 'GET /hello?a=1'];
    is_deeply $answer->{refused}, [], 'nobody is refused';
    my (undef, $text) = $operator->ask('where', '--pool', '/hello');
    like $text, qr{^worker \d+ of /hello, process $script->{pid}, .*: GET /hello\?a=1, for [\d.]+ s\n  runs sleep 60$}m;

    for (
        [['profile'], qr/nothing to look into: it runs CGI scripts/],
        [['leaks', '--seconds', 30], qr/nothing to ask: it runs CGI scripts/],
        [['heap', '--why', 'X'], qr/nothing to ask: it runs CGI scripts/],
        [['profile', '--nytprof', '--output', $operator->dir . '/n'], qr/it runs CGI scripts/],
        )
    {
        my ($command, $words) = @$_;
        my ($status, undef, $err) = $operator->ask(@$command, '--pool', '/hello');
        is $status, 1, "@$command";
        like $err, $words;
    }
    kill KILL => $answer->{workers}[0]{pid}, $script->{pid};
};

subtest 'scripts that are kept' => sub {
    my $file = $operator->dir . '/kept.cgi';
    write_file(
        $file,
        qq{#!/usr/bin/perl\nsub linger { sleep 60 }\nlinger();\nprint "Content-Type: text/plain\\n\\n";\n}
    );
    chmod oct(755), $file;
    my $server = start(['--cgi', "/nap=$file,mode=keep"]);
    my $client = Howdah::Test::Client->new($server);
    $client->write($GET);
    my $answer = seen($server);
    like $answer->{workers}[0]{stack}[0]{sub}, qr/::linger$/, 'are seen as any application';
    kill KILL => $answer->{workers}[0]{pid};
};

done_testing;
