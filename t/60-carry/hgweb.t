# Mercurial's hgweb, a program in Python: a repository is looked at, cloned and pushed to.
use strict;
use warnings;
use lib 't/lib';

use File::Temp ();
use Howdah::Test::Carry;
use Howdah::Test::Command qw(run_command);
use Howdah::Test::File qw(write_file);
use Test::More;

local @ENV{qw(HGRCPATH HGUSER no_proxy)} = ('', 'camel', '127.0.0.1');
grep { -x "$_/hg" } split /:/, $ENV{PATH} or plan skip_all => 'hg is not installed';

my $temp   = File::Temp->newdir;
my $dir    = "$temp";
my $copies = File::Temp->newdir;

# What hg says; dies of what it complains of.
sub hg {
    my ($status, $out, $err) = run_command('hg', @_);
    $status == 0 or die "hg @_: $err";
    return $out =~ s/\n\z//r;
}

# A commit of that file in that repository, by its identifier.
sub commit {
    my ($repository, $name, $text) = @_;
    write_file("$repository/$name", $text);
    hg('-R', $repository, 'commit', '--addremove', '--quiet', '--message', "Adds $name", "$repository/$name");
    return hg('-R', $repository, 'identify', '--id');
}

hg('init', "$dir/demo");
my $first = commit("$dir/demo", 'hello.txt', 'one');
write_file("$dir/hgweb.config", "[paths]\n/ = $dir/*\n[web]\nallow_push = *\npush_ssl = false\nallow_archive = gz\n");
write_file("$dir/hgweb.cgi", <<"PYTHON");
#!/usr/bin/python3
from mercurial import demandimport
demandimport.enable()
from mercurial.hgweb import hgweb, wsgicgi
wsgicgi.launch(hgweb(b'$dir/hgweb.config'))
PYTHON
chmod 0755, "$dir/hgweb.cgi" or die $!;

# Two megabytes that do not compress.
my $large = join '', map { pack 'N', $_ * 2654435761 % 4294967296 } 1 .. 524_288;

# Address, status, type, and what is in it.
my @pages = (
    ['', 200, 'text/html', qr{href="/hg/demo/"}],
    ['/demo', 200, 'text/html', qr/Adds hello\.txt/],
    ["/demo/rev/$first", 200, 'text/html', qr/Adds hello\.txt/],
    ["/demo/raw-file/$first/hello.txt", 200, 'application/binary', qr/\Aone\n/],
    ["/demo/archive/$first.tar.gz", 200, 'application/x-gzip', qr/\A\x1f\x8b/],
    ['/demo?cmd=capabilities', 200, 'application/mercurial-0.1', qr/\bunbundle=/],
    ['/demo/log?rev=a%2Fb', 200, 'text/html', qr{a/b}],
    ['/demo/rev/none', 404, 'text/html', qr/unknown revision/],
    ['/none', 404, 'text/html', qr/not found/],
);

Howdah::Test::Carry->new(
    program => "$dir/hgweb.cgi",
    at      => '/hg',
    env     => {HGRCPATH => '', HGENCODING => 'UTF-8'},
    auto    => 'exec',
    ways    => [qw(wrapped exec auto)],
)->walk(sub {
    my ($agent, $way, $server) = @_;
    for (@pages) {
        my ($path, $status, $type, $content) = @$_;
        my $response = $agent->get($path);
        is join(' ', $response->code, scalar $response->content_type), "$status $type", "GET /hg$path";
        like $response->decoded_content, $content, 'what is in it';
    }
    my ($url, $copy) = ($server->url . "/hg/demo", "$copies/$way");
    hg('clone', '--quiet', $url, $copy);
    my $pushed = commit($copy, "$way.bin", $large);
    hg('-R', $copy, 'push', '--quiet', $url);
    is hg('-R', "$dir/demo", 'identify', '--id', '--rev', 'tip'), $pushed, 'a push arrives';
    is((run_command('hg', '-R', $copy, 'incoming', $url))[0], 1, 'and there is nothing more to get');
});
