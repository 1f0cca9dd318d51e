# gitweb, as Debian has it, with a repository of the test's own.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Carry;
use Howdah::Test::Git;
use Test::More;

my $git = Howdah::Test::Git->new;
$git->commit('hello.txt', "one\n", 'The first');
$git->commit('hello.txt', "one\ntwo\n", 'The second');
my $last = $git->commit('lib/Camel.pm', "package Camel;\n1;\n", 'A <module>');
$git->run('tag', 'v1.0');
my $config = $git->dir . '/gitweb.conf';
open my $out, '>', $config or die $!;
print {$out} "\$projectroot = '", $git->dir,
    "'; \$feature{'pathinfo'}{'default'} = [0]; \$feature{'blame'}{'default'} = [1];\n1;\n";
close $out or die $!;

my $page = 'demo.git;a';

# Address, status, type, and what is in it.
my @pages = (
    ['', 200, 'html', qr{<title>.*Git</title>.*demo\.git.*The camels}s],
    ['?p=demo.git', 200, 'html', qr{The first.*v1\.0}s],
    ["?p=$page=log", 200, 'html', qr{A &lt;module&gt;.*The second.*The first}s],
    ["?p=$page=tree;f=lib;hb=HEAD", 200, 'html', qr/Camel\.pm/],
    ["?p=$page=blob;f=hello.txt;hb=HEAD", 200, 'html', qr/two/],
    ["?p=$page=blob_plain;f=hello.txt;hb=HEAD", 200, 'plain', qr/\Aone\ntwo\n\z/],
    ["?p=$page=commitdiff;h=$last", 200, 'html', qr/diff add.*\+package.{1,6}Camel;/],
    ["?p=$page=commitdiff_plain;h=$last", 200, 'plain', qr/^\+package Camel;$/m],
    ["?p=$page=search;s=second;st=commit;h=HEAD", 200, 'html', qr/The <span class="match">second/],
    ["?p=$page=blame;f=hello.txt;hb=HEAD", 200, 'html', qr/two/],
    ["?p=$page=atom", 200, 'atom', qr{<title[^>]*>A &lt;module&gt;</title>}],
    ["/demo.git/shortlog", 200, 'html', qr/The first/],
    ["/demo.git/blob_plain/HEAD:/hello.txt", 200, 'plain', qr/\Aone\ntwo\n\z/],
    ['?p=none.git', 404, 'html', qr/404 - No such project/],
    ["?p=$page=wrong", 400, 'html', qr/400 - /],
);

Howdah::Test::Carry->new(
    program => '/usr/lib/cgi-bin/gitweb.cgi',
    at      => '/gitweb',
    env     => {GITWEB_CONFIG => $config, GIT_CONFIG_GLOBAL => '/dev/null'},
    says    => qr/\$sha(?:1|256)_len" will not stay shared/,    # true, and harmless: its value is always the same
    ways    => [qw(wrapped exec fork keep)],
)->walk(sub {
    my $agent = shift;
    for (@pages) {
        my ($path, $status, $type, $text) = @$_;
        my $got = $agent->get($path);
        is $got->code, $status, "gitweb$path";
        like $got->content_type, qr/\Q$type\E/, 'its type';
        like $got->content, $text, 'what is in it';
    }
    my $archive = $agent->get("?p=$page=snapshot;h=HEAD;sf=tgz");
    is $archive->content_type, 'application/x-gzip', 'a snapshot';
    is $git->unpacked($archive->content, 'lib/Camel.pm'), "package Camel;\n1;\n", 'is all of it';
    my $feed = $agent->get("?p=$page=rss");
    my $same = $agent->get("?p=$page=rss", 'If-Modified-Since' => $feed->header('Last-Modified'));
    is $same->code . $same->content, '304', 'a feed that has not changed';
    is + ($agent->curl('', '--head'))[0], 200, 'HEAD';
});
