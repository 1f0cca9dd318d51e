# Blosxom, as Debian has it, with entries of the test's own: its plugins and its package variables. Since it believes those to
# be empty when it begins, it bears no way that keeps them: neither `keep` nor ModPerl::Registry.
use strict;
use warnings;
use lib 't/lib';

use File::Path qw(make_path);
use File::Temp ();
use Howdah::Test::Carry;
use POSIX qw(mktime);
use Test::More;

my $dir = File::Temp->newdir;
make_path(map { "$dir/$_" } 'data/desert/sand', 'plugins', 'state');
write_file('blosxom.conf', <<"CONF");
\$blog_title = 'Caravan';
\$datadir = '$dir/data';
\$plugin_dir = '$dir/plugins';
\$plugin_state_dir = '$dir/state';
\$num_entries = 2;
1;
CONF
write_file('plugins/shout', <<'PERL');
package shout;
my $stories = 0;
sub start { 1 }
sub story { my ($self, $path, $file, $story, $title) = @_; $$title = uc $$title; $stories++; 1 }
sub foot { my ($self, $path, $foot) = @_; $$foot = "<p>$stories shouted</p>$$foot"; 1 }
1;
PERL
entry('data/first.txt', 2021, "A first\n<p>One &eacute;t\xc3\xa9</p>\n");
entry('data/desert/second.txt', 2022, "A second\n<p>Two</p>\n");
entry('data/desert/sand/third.txt', 2023, "A third\n<p>Three</p>\n");

sub entry {
    my ($name, $year, $text) = @_;
    write_file($name, $text);
    my $time = mktime(0, 0, 12, 10, 4, $year - 1900);
    return utime $time, $time, "$dir/$name";
}

sub write_file {
    my ($name, $text) = @_;
    open my $out, '>:raw', "$dir/$name" or die "cannot write $name: $!";
    print {$out} $text;
    return close $out;
}

# Address, type, what is in it, what is not.
my @pages = (
    ['', 'html', qr{Caravan.*A THIRD.*A SECOND.*<p>2 shouted}s, qr/A FIRST/],
    ['/desert', 'html', qr{A THIRD.*A SECOND}s, qr/A FIRST/],
    ['/desert/sand/third.html', 'html', qr{A THIRD.*<p>Three</p>.*<p>1 shouted}s, qr/A SECOND/],
    ['/2021', 'html', qr{A FIRST.*One &eacute;t\xc3\xa9}s, qr/A THIRD/],
    ['/2022/05/10', 'html', qr/A SECOND/, qr/A FIRST/],
    ['/1999', 'html', qr/Caravan/, qr/A (?:FIRST|SECOND|THIRD)/],
    ['/index.rss', 'xml', qr{<rss.*<title>A THIRD</title>}s, qr/<body/],
    ['/desert/sand/third.rss', 'xml', qr{<link>http://127\.0\.0\.1:\d+/blog/}, qr/A SECOND/],
    ['?flav=rss&path=/', 'xml', qr{<rss}s, qr/<body/],
);

Howdah::Test::Carry->new(
    program => '/usr/lib/cgi-bin/blosxom',
    at      => '/blog',
    env     => {BLOSXOM_CONFIG_DIR => "$dir"},
    ways    => [qw(wrapped exec fork)],
)->walk(sub {
    my $agent = shift;
    for (@pages) {
        my ($path, $type, $with, $without) = @$_;
        my $got = $agent->get($path);
        is $got->code, 200, "blog$path";
        like $got->content_type, qr/$type/, 'its type';
        like $got->content, $with, 'what is in it';
        unlike $got->content, $without, 'and what is not';
    }
    is + ($agent->curl('/desert', '--head'))[0], 200, 'HEAD';
    my ($status, $page) = $agent->curl('/desert', '-d', 'flav=rss');
    like "$status $page", qr/^200 .*<rss/s, 'a parameter by POST';
});
