# --reload: a change of the application's files loads it anew, without anybody asking.
use strict;
use warnings;
use lib 't/lib';

use File::Path qw(make_path);
use File::Temp qw(tempdir);
use Howdah::Test::Client;
use Howdah::Test::Command ();
use Howdah::Test::Server;
use Test::More;
use Time::HiRes qw(sleep);

my $dir = tempdir(CLEANUP => 1);
make_path("$dir/$_") for qw(lib/My extra more);

sub write_file {
    my ($name, $text) = @_;
    open my $out, '>', "$dir/.fresh" or die $!;
    print {$out} $text;
    close $out or die $!;
    return rename "$dir/.fresh", "$dir/$name";
}

write_file('app.psgi', 'use lib "lib"; use My::App; my $f = "one"; sub { [200, [], ["$f $My::App::version"]] }');
write_file('lib/My/App.pm', 'package My::App; our $version = 1; 1;');
my $server = Howdah::Test::Server->start(
    command => [Howdah::Test::Command::howdah_bin(), '-l', '127.0.0.1:0', '--chdir', $dir],
    options =>
        ['--workers', 1, '--control', "$dir/control", '-r', '-I', 'extra', '-R', 'more', '-R', 'absent', 'app.psgi'],
);
sub answer { return Howdah::Test::Client->ask($server, "GET / HTTP/1.0\r\n\r\n")->{body} }

sub becomes {
    my $wanted = shift;
    return $server->wait_until(sub { answer() eq $wanted }, 10);
}
sub reloads { return scalar(() = $server->log =~ /has changed: reloading/g) }
is answer(), 'one 1';
like $server->log, qr/WARN .*--reload-dir absent is not watched: it is no directory$/m, 'a directory that is not there';

subtest 'the .psgi file, replaced as editors do' => sub {
    write_file('app.psgi', 'use lib "lib"; use My::App; sub { [200, [], ["two $My::App::version"]] }');
    ok becomes('two 1');
};

subtest 'a module in lib' => sub {
    write_file('lib/My/App.pm', 'package My::App; our $version = 2; 1;');
    ok becomes('two 2');
};

subtest 'what is in directories of -I and -R' => sub {
    for my $name ('extra/Any.pm', 'more/page.tt') {
        my $before = reloads();
        write_file($name, '1;');
        ok $server->wait_until(sub { reloads() > $before }, 10), $name;
    }
};

subtest 'code that does not load leaves the old serving, and is mended by the next change' => sub {
    write_file('lib/My/App.pm', 'this is no Perl');
    ok $server->wait_for_log(qr/the new code does not load/, 10);
    is answer(), 'two 2';
    write_file('lib/My/App.pm', 'package My::App; our $version = 3; 1;');
    ok becomes('two 3');
};

subtest 'code whose load does not end is given up for the next change' => sub {
    write_file('lib/My/App.pm', 'package My::App; mkdir "begun" or die; sleep 1 while 1; 1;');
    ok $server->wait_until(sub { -d "$dir/begun" }, 10), 'it is begun';
    write_file('lib/My/App.pm', 'package My::App; our $version = 4; 1;');
    ok becomes('two 4'), 'what has mended it is loaded';
};

subtest 'many changes at once are one reload; scratch files and files beside are none' => sub {
    sleep 0.5;
    my $before = reloads();
    for my $n (1 .. 20) { write_file("lib/My/File$n.pm", '1;'); sleep 0.01 }
    $server->wait_until(sub { reloads() > $before }, 10);
    sleep 1;
    is reloads(), $before + 1;
    write_file($_, 'x') for 'lib/.App.pm.swp', 'lib/App.pm~', 'notes.txt';
    sleep 1;
    is reloads(), $before + 1;
};

# The load itself changes a module that it has loaded, once.
subtest 'what changes while the application is loaded for the first time' => sub {
    write_file('lib/My/Own.pm', 'package My::Own; our $version = 1; 1;');
    write_file('first.psgi', <<'PSGI');
use lib 'lib';
use My::Own;
if (!-e 'changed') {
    open my $out, '>', 'lib/.fresh' or die $!;
    print {$out} 'package My::Own; our $version = 2; 1;';
    close $out or die $!;
    rename 'lib/.fresh', 'lib/My/Own.pm' or die $!;
    mkdir 'changed' or die $!;
}
sub { [200, [], [$My::Own::version]] }
PSGI
    my $first = Howdah::Test::Server->start(
        command => [Howdah::Test::Command::howdah_bin(), '-l', '127.0.0.1:0', '--chdir', $dir],
        options => ['--workers', 1, '-r', 'first.psgi'],
    );
    my $version = sub { Howdah::Test::Client->ask($first, "GET / HTTP/1.0\r\n\r\n")->{body} };
    ok $first->wait_until(sub { $version->() == 2 }, 10), 'is loaded' or diag $first->log;
    is $first->stop, 0;
};

# The working directory has one name, and a shell that has come there by a link writes another.
subtest 'files of two applications in a directory that has two names' => sub {
    my ($real, $link) = ("$dir/releases", "$dir/current");
    make_path("$real/lib");
    symlink $real, $link or die $!;
    my @apps = ('/', '/more');
    my %file = ('/' => 'first.psgi', '/more' => 'second.psgi');
    my $code = sub { "my \$v = do './lib/version.pl'; sub { [200, [], ['$_[0] ' . \$v]] }" };
    write_file("releases/$file{$_}", $code->('old')) for @apps;
    write_file('releases/lib/version.pl', '1');
    my $both = Howdah::Test::Server->start(
        command => [Howdah::Test::Command::howdah_bin(), '-l', '127.0.0.1:0', '--chdir', $real],
        options => ['--workers', 1, '-r', '--mount', "/more=$link/$file{'/more'}", $file{'/'}],
    );
    my $is = sub {
        my ($app, $wanted) = @_;
        my $answer = sub { Howdah::Test::Client->ask($both, "GET $app HTTP/1.0\r\n\r\n")->{body} };
        ok $both->wait_until(sub { $answer->() eq $wanted }, 10), "$app is $wanted" or diag $answer->(), $both->log;
    };
    $is->($_, 'old 1') for @apps;
    write_file('releases/lib/version.pl', '2');
    $is->($_, 'old 2') for @apps;
    for my $app (@apps) {
        write_file("releases/$file{$app}", $code->('new'));
        $is->($app, 'new 2');
    }
    is $both->stop, 0;
};

done_testing;
