# A mount that is a symbolic link, which a deployment leads to another release while the server runs: scripts are those of the new
# release, in every mode, by the path that the operator gave.
use strict;
use warnings;
use lib 't/lib';

use File::Temp qw(tempdir);
use Howdah::Test::Client;
use Howdah::Test::Server;
use Test::More;

my $dir = tempdir(CLEANUP => 1);

sub script {
    my ($release, $name, $text) = @_;
    open my $out, '>', "$dir/$release/$name" or die $!;
    print {$out} qq{#!$^X\nprint "Content-Type: text/plain\\n\\n$release ", $text, "\\n";\n};
    close $out or die $!;
    chmod 0755, "$dir/$release/$name" or die $!;
    return;
}

# As deployments do it: the link is replaced at one moment.
sub release {
    symlink shift, "$dir/next" or die $!;
    return rename "$dir/next", "$dir/current";
}

for my $release (qw(first second)) {
    mkdir "$dir/$release" or die $!;
    script($release, 'page.cgi', 'join(" ", $0, @ENV{qw(SCRIPT_FILENAME DOCUMENT_ROOT)})');
    symlink 'page.cgi', "$dir/$release/inside.cgi" or die $!;
    script($release, "$release.cgi", '"alone"');
}
symlink '../second/page.cgi', "$dir/first/outside.cgi" or die $!;
release('first');

my @modes  = qw(exec fork keep);
my $server = Howdah::Test::Server->start(
    options => [
        map {
            ('--cgi', "/$_=$dir/current,mode=$_,workers=1", '--cgi', "/one-$_=$dir/current/page.cgi,mode=$_,workers=1")
        } @modes
    ],
);

sub ask {
    my $answer = Howdah::Test::Client->ask($server, "GET $_[0] HTTP/1.1\r\nHost: x\r\n\r\n");
    return $answer->{error} || ($answer->{status} == 200 ? $answer->{body} : $answer->{status});
}

# Mode fork looks at its files once a second.
sub answers {
    my ($path, $wanted, $says) = @_;
    $server->wait_until(sub { ask($path) eq $wanted }, 15);
    return is ask($path), $wanted, "$path $says";
}

sub check {
    my ($release, $other) = @_;
    for my $mode (@modes) {
        my ($page, $inside) = map { "$dir/current/$_.cgi" } qw(page inside);
        answers("/$mode/page.cgi", "$release $page $page $dir/current\n", 'is that of the release');
        answers("/one-$mode", "$release $page $page $dir/current\n", '... alone');
        answers("/$mode/inside.cgi", "$release $inside $inside $dir/current\n", '... by a link within it');
        answers("/$mode/$release.cgi", "$release alone\n", 'is there');
        answers("/$mode/$other.cgi", 404, 'is not');
    }
    return;
}

check('first', 'second');
is ask("/$_/outside.cgi"), 403, "$_: a link out of the release" for @modes;
release('second');
check('second', 'first');
release('first');
check('first', 'second');
is $server->stop, 0;

done_testing;
