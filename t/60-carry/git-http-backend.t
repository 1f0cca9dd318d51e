# git's own CGI program, in C: a repository is cloned from it and pushed to it, with bodies of unknown length.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Carry;
use Howdah::Test::Git;
use Test::More;

my $git = Howdah::Test::Git->new;
$git->commit('hello.txt', "one\n", 'The first');
$git->run('config', 'http.receivepack', 'true');
my $dir = $git->dir;

# Two megabytes that do not compress, so that git sends them in chunks.
my $large = join '', map { pack 'N', $_ * 2654435761 % 4294967296 } 1 .. 524_288;

Howdah::Test::Carry->new(
    program => '/usr/lib/git-core/git-http-backend',
    at      => '/git',
    env     => {GIT_PROJECT_ROOT => $dir, GIT_HTTP_EXPORT_ALL => 1, GIT_CONFIG_GLOBAL => '/dev/null'},
    says    => qr/Not a git repository: .*none\.git/,
    auto    => 'exec',
    ways    => [qw(wrapped exec auto)],
)->walk(sub {
    my ($agent, $way, $server) = @_;
    my ($url, $copy) = ($server->url . '/git/demo.git', "$dir/$way");
    my $refs = $agent->get('/demo.git/info/refs?service=git-upload-pack');
    is join(' ', $refs->code, scalar $refs->content_type), '200 application/x-git-upload-pack-advertisement',
        'what there is';
    is $agent->get('/none.git/info/refs')->code, 404, 'what there is not';
    local $ENV{no_proxy} = '127.0.0.1';
    $git->run('clone', '--quiet', '--branch', 'main', $url, $copy);
    ok -s "$copy/hello.txt", 'a clone';
    $git->write_file("$copy/$way.bin", $large);
    my @there = ("--git-dir=$copy/.git", "--work-tree=$copy");
    $git->run(@there, 'add', "$way.bin");
    $git->run(@there, 'commit', '--quiet', '--message', "Large, by $way");
    $git->run(@there, '-c', 'http.postBuffer=100000', 'push', '--quiet', 'origin', 'main');
    like $git->run('log', '--format=%s', 'main'), qr/\ALarge, by $way$/m, 'a push';
    is $git->run('cat-file', 'blob', "main:$way.bin"), $large, 'of all bytes';
});
