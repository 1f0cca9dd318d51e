# --mount: a request goes to the application with the longest path that its own lies below, compared as the application
# sees it, at slashes; SCRIPT_NAME is that path, PATH_INFO the rest.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Server;
use JSON::PP ();
use Test::More;

my $echo = 't/apps/echo.psgi';

sub mounted {
    return map { ('--mount', "$_=$echo") } @_;
}

# What the application sees of a request.
sub seen {
    my ($response) = @_;
    return {} if $response->{status} != 200;
    return JSON::PP->new->latin1->decode($response->{body});
}

sub names {
    my $env = seen(shift)->{env} // {};
    return [@$env{qw(SCRIPT_NAME PATH_INFO)}];
}

sub check {
    my ($server, @cases) = @_;
    my $client = Howdah::Test::Client->new($server);
    for my $case (@cases) {
        my ($target, @names) = @$case;
        $client->write("GET $target HTTP/1.1\r\nHost: x\r\n\r\n");
        is_deeply names($client->response), \@names, $target;
    }
    return;
}

subtest 'one connection, an application for each path' => sub {
    my @options = ('--workers', 1, mounted(qw(/admin /admin/deep/), "/caf\xc3\xa9"));
    my $server  = Howdah::Test::Server->start(file => $echo, options => \@options);
    check(
        $server,
        ['/', '', '/'],
        ['/x/y?z=/admin', '', '/x/y'],
        ['/admin', '/admin', ''],
        ['/admin?x=1', '/admin', ''],
        ['/admin/', '/admin', '/'],
        ['/admin/x/y', '/admin', '/x/y'],
        ['/administrator', '', '/administrator'],
        ['/Admin', '', '/Admin'],
        ['/admin/deep', '/admin/deep', ''],
        ['/admin/deep/x', '/admin/deep', '/x'],
        ['/admin/deeper', '/admin', '/deeper'],
        ['/x/admin', '', '/x/admin'],
        ['/%61dmin/x', '/admin', '/x'],
        ['/admin%2fx', '/admin', '/x'],
        ['/admin%3Fx', '', '/admin?x'],
        ['/admin//x', '/admin', '//x'],
        ['//admin', '', '//admin'],
        ['/admin/../x', '/admin', '/../x'],
        ['/admin;v=1', '', '/admin;v=1'],
        ['/caf%C3%A9/x', "/caf\xc3\xa9", '/x'],
        ['http://elsewhere/admin/x?admin', '/admin', '/x'],
    );
};

subtest 'with --path, the first application has a path, too' => sub {
    my $server = Howdah::Test::Server->start(file => $echo, options => ['--path', '/app', mounted('/app/admin')]);
    like $server->log, qr{try  curl http://127\.0\.0\.1:\d+/app/ }, 'the address to try';
    check($server, ['/app', '/app', ''], ['/app/x', '/app', '/x'], ['/app/admin/x', '/app/admin', '/x']);
    is + Howdah::Test::Client->ask($server, "GET /$_ HTTP/1.0\r\n\r\n")->{status}, 404, "/$_ is nobody's"
        for '', 'other', 'application';

    my @both = ('--path', '/app', mounted('/'));
    my $rest = Howdah::Test::Server->start(file => $echo, options => \@both);
    check($rest, ['/app/x', '/app', '/x'], ['/', '', '/'], ['/application', '', '/application']);
};

subtest 'a mount at the root needs no other application' => sub {
    my $server = Howdah::Test::Server->start(options => ['--workers', 1, mounted('/', '/admin')]);
    check($server, ['/', '', '/'], ['/x/y', '', '/x/y'], ['/admin/x', '/admin', '/x']);
    my $only = Howdah::Test::Server->start(options => ['--workers', 1, mounted('/')]);
    check($only, ['/', '', '/'], ['/admin/x', '', '/admin/x']);
    like $only->log, qr{serving \Q$echo\E on http://\S+ with 1 worker .*try  curl http://127\.0\.0\.1:\d+/ }s,
        'what it says';
};

subtest 'requests on one connection, sent at once, are answered in order by different applications' => sub {
    my $server = Howdah::Test::Server->start(file => $echo, options => [mounted('/admin')]);
    my $client = Howdah::Test::Client->new($server);
    my @paths  = map { ("/$_", "/admin/$_") } 1 .. 10;
    $client->write(join '', map { "GET $_ HTTP/1.1\r\nHost: x\r\n\r\n" } @paths);
    is_deeply [map { join '', @{names($client->response)} } @paths], \@paths;
};

subtest 'bodies of all sizes reach the application that is meant' => sub {
    my $server = Howdah::Test::Server->start(file => $echo, options => [mounted('/admin')]);
    my @pids;
    for my $size (10, 60_000, 300_000, 3_000_000) {
        my $head = "Host: x\r\nContent-Length: $size\r\n\r\n";
        my @seen =
            map { seen(Howdah::Test::Client->ask($server, "POST $_ HTTP/1.1\r\n$head" . 'b' x $size)) } '/', '/admin';
        is_deeply [map { $_->{length} } @seen], [$size, $size], "$size bytes";
        isnt $seen[0]{pid}, $seen[1]{pid}, 'by workers of their own';
    }
};

done_testing;
