# --cgi: which script a path leads to, which are refused, and what the script sees of the request.
use strict;
use warnings;
use lib 't/lib';

use File::Path qw(make_path);
use File::Temp qw(tempdir);
use Howdah::Test::Client;
use Howdah::Test::Server;
use Test::More;

my $dir = tempdir(CLEANUP => 1);
make_path map { "$dir/$_" } qw(cgi/sub cgi/.hidden cgi/full cgi-2 out);

# Prints its environment and its arguments.
my $code =
    qq{#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\nenv\nfor word in "\$@"; do echo "ARGUMENT \$word"; done\npwd\n};

for my $name (qw(cgi/a.cgi cgi/sub/b cgi/.hidden/c cgi/.d cgi/full/index.cgi cgi/plain cgi-2/secret out/secret)) {
    open my $out, '>', "$dir/$name" or die "$name: $!";
    print {$out} $code;
    close $out or die "$name: $!";
    chmod 0755, "$dir/$name" or die "$name: $!";
}
chmod 0644, "$dir/cgi/plain" or die $!;
symlink '../out/secret', "$dir/cgi/away" or die $!;
symlink '../cgi-2/secret', "$dir/cgi/beside" or die $!;
symlink 'a.cgi', "$dir/cgi/near" or die $!;

local $ENV{SECRET_OF_THE_SERVER} = 'secret';
local $ENV{PASSED_ON}            = 'yes';
my $server = Howdah::Test::Server->start(
    options => [
        '--cgi', "/c=$dir/cgi,mode=exec,index=none.cgi,index=index.cgi", '--cgi',
        "/one=$dir/out/secret,mode=exec,workers=2",
        '--cgi-env', 'MINE=a b=c', '--cgi-pass', 'PASSED_ON,NOT_THERE,HTTP_AUTHORIZATION', '--document-root',
        "$dir/out",
    ],
);
my $client = Howdah::Test::Client->new($server);

sub ask {
    my ($target, @fields) = @_;
    $client->write("GET $target HTTP/1.1\r\n" . join('', map { "$_\r\n" } 'Host: Shop.example:81', @fields) . "\r\n");
    return $client->response;
}

sub variables {
    my $response = ask(@_);
    return {map { /^(\w+)=(.*)/ ? ($1 => $2) : () } split /\n/, $response->{body}};
}

subtest 'a path and its script' => sub {
    my @cases = (
        ['/c/a.cgi', 'cgi/a.cgi', '/c/a.cgi', undef],
        ['/c/a.cgi/x%20y/z?q', 'cgi/a.cgi', '/c/a.cgi', '/x y/z'],
        ['/c//sub//b/', 'cgi/sub/b', '/c/sub/b', '/'],
        ['/c/%61.cgi', 'cgi/a.cgi', '/c/a.cgi', undef],
        ['/c/near/x', 'cgi/near', '/c/near', '/x'],
        ['/c/full/', 'cgi/full/index.cgi', '/c/full/index.cgi', undef],
        ['/one', 'out/secret', '/one', undef],
        ['/one/a.cgi', 'out/secret', '/one', '/a.cgi'],
    );
    for my $case (@cases) {
        my ($target, $file, $name, $info) = @$case;
        my $env = variables($target);
        is_deeply [@$env{qw(SCRIPT_FILENAME SCRIPT_NAME PATH_INFO)}], ["$dir/$file", $name, $info], $target;
        is $env->{PATH_TRANSLATED}, defined $info ? "$dir/out$info" : undef, '... and PATH_TRANSLATED';
    }
};

subtest 'a path that leads to none' => sub {
    my @cases = (
        ['/c/none', 404, qr{/cgi/none: No such file}],
        ['/c/' . 'x' x 300, 404, qr{: File name too long}],
        ['/c/sub/', 403, qr{/cgi/sub is a directory; and it has no index script}],
        ['/c/plain', 403, qr{/cgi/plain is not executable}],
        ['/c/.d', 403, qr{/cgi/\.d is hidden}],
        ['/c/%2ehidden/c', 403, qr{/cgi/\.hidden is hidden}],
        ['/c/away', 403, qr{/cgi/away is a symbolic link out of the directory: .* --cgi /c/away=\S+/cgi/away$}m],
        ['/c/beside', 403, qr{/cgi/beside is a symbolic link out of the directory}],
        ['/c/../out/secret', 403, qr{the path has a "\.\."}],
        ['/c/%2e%2e/out/secret', 403, qr{the path has a "\.\."}],
        ['/c/a.cgi/%2E./%2e%2E/x', 403, qr{the path has a "\.\."}],
        ['/c/%252e%252e/out/secret', 404, qr{/cgi/%2e%2e: No such file}],
        ['/c/..%2fout%2fsecret', 403, qr{the path has a "\.\."}],
        ['/elsewhere', 404, qr{the path is not below that of the mount}],
    );
    for my $case (@cases) {
        my ($target, $status, $why) = @$case;
        is ask($target)->{status}, $status, "$status for $target";
        ok $server->wait_for_log($why), '... and the log says why';
    }
    is + Howdah::Test::Client->ask($server, "GET /c/a.cgi%00 HTTP/1.1\r\nHost: x\r\n\r\n")->{status}, 400,
        'a NUL is no path';
};

subtest 'what a script sees' => sub {
    my $env      = variables('/c/a.cgi?one+t%77o', 'Proxy: evil', 'Authorization: Basic x', 'X-Mine: 1', 'X-Mine: 2');
    my %expected = (
        MINE               => 'a b=c',
        PASSED_ON          => 'yes',
        HTTP_AUTHORIZATION => 'Basic x',
        HTTP_X_MINE        => '1, 2',
        SERVER_NAME        => 'shop.example',
        DOCUMENT_ROOT      => "$dir/out",
        QUERY_STRING       => 'one+t%77o',
        GATEWAY_INTERFACE  => 'CGI/1.1',
        REMOTE_ADDR        => '127.0.0.1',
        SERVER_ADDR        => '127.0.0.1',
        UNIQUE_ID          => $env->{HTTP_X_REQUEST_ID},
    );
    is $env->{$_}, $expected{$_}, $_ for sort keys %expected;
    ok !exists $env->{$_}, "no $_"
        for qw(HTTP_PROXY SECRET_OF_THE_SERVER NOT_THERE HOWDAH_CGI_HOST PATH_INFO HTTPS CONTENT_LENGTH);
    like ask('/c/sub/b?one+t%77o')->{body}, qr{^ARGUMENT one\nARGUMENT two\n\Q$dir\E/cgi/sub\n\z}m,
        'arguments, and its directory';
};

is $server->stop, 0;

subtest 'a script at the root' => sub {
    $server = Howdah::Test::Server->start(options => ['--cgi', "/=$dir/out/secret,mode=exec"]);
    like $server->log, qr{try  curl http://127\.0\.0\.1:\d+/ }, 'the address to try';
    $client = Howdah::Test::Client->new($server);
    is_deeply [@{variables('/a/b')}{qw(SCRIPT_NAME PATH_INFO)}], ['', '/a/b'], 'has all requests';
    is $server->stop, 0;
};

subtest 'what to try of a directory' => sub {
    for (['', 'SCRIPT'], [',index=echo', '']) {
        my ($option, $script) = @$_;
        $server = Howdah::Test::Server->start(options => ['--cgi', "/c=$dir/cgi$option"]);
        like $server->log, qr{try  curl http://127\.0\.0\.1:\d+/c/$script }, $script || 'its index';
        is $server->stop, 0;
    }
};
done_testing;
