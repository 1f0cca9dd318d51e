# cgit, as Debian has it: a program in C, which shows a repository of the test's own.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Carry;
use Howdah::Test::Git;
use Test::More;

my $git   = Howdah::Test::Git->new;
my $first = $git->commit('hello.txt', "one\n", 'The first');
my $last  = $git->commit('lib/Camel.pm', "package Camel;\n1;\n", 'A <module>');
$git->run('tag', 'v1.0');
my ($dir, $config) = ($git->dir, $git->dir . '/cgitrc');
$git->write_file($config, <<"RC");
root-title=All camels
cache-size=0
snapshots=tar.gz
enable-index-links=1
repo.url=demo
repo.path=$dir/demo.git
repo.desc=The camels
RC

# Address, status, type, and what is in it.
my @pages = (
    ['/', 200, 'text/html', qr{<title>All camels.*The camels}s],
    ['/demo/', 200, 'text/html', qr{A &lt;module&gt;.*v1\.0}s],
    ['/demo/log/?qt=grep&q=first', 200, 'text/html', qr/The first/],
    ['/demo/tree/lib', 200, 'text/html', qr/Camel\.pm/],
    ['/demo/tree/lib/Camel.pm', 200, 'text/html', qr/package Camel;/],
    ['/demo/plain/lib/Camel.pm', 200, 'text/plain', qr/\Apackage Camel;\n1;\n\z/],
    ["/demo/commit/?id=$last", 200, 'text/html', qr/<div class='add'>\+package Camel;/],
    ["/demo/diff/?id=$last&id2=$first", 200, 'text/html', qr/package Camel;/],
    ["/demo/patch/?id=$last", 200, 'text/plain', qr/^\+package Camel;$/m],
    ['/demo/atom/?h=main', 200, 'text/xml', qr{<title>A &lt;module&gt;</title>}],
    ['/demo/tree/none', 404, 'text/html', qr/Path not found/],
    ['/none/', 404, 'text/html', qr/No repositories found/],
);

Howdah::Test::Carry->new(
    program => '/usr/lib/cgit/cgit.cgi',
    at      => '/cgit',
    env     => {CGIT_CONFIG => $config},
    auto    => 'exec',
    ways    => [qw(wrapped exec auto)],
)->walk(sub {
    my $agent = shift;
    for (@pages) {
        my ($path, $status, $type, $text) = @$_;
        my $got = $agent->get($path);
        is join(' ', $got->code, scalar $got->content_type), "$status $type", "cgit$path";
        like $got->content, $text, 'what is in it';
    }
    my $archive = $agent->get('/demo/snapshot/demo-v1.0.tar.gz');
    is $git->unpacked($archive->content, 'lib/Camel.pm'), "package Camel;\n1;\n", 'a snapshot';
    is + ($agent->curl('/', '--head'))[0], 200, 'HEAD';
});
