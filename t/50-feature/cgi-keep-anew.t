# Each request of a kept CGI script finds things as a process of its own would: what the requests before it, of this script and of
# others, have left half done, and what its BEGIN blocks have set. The same scripts are
# executed, and have to answer alike.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Scripts;
use Howdah::Test::Server;
use Test::More;

my $HEAD = qq{#!$^X\nprint "Content-Type: text/plain\\n\\n";\n};

# By name, which is the order in which they are asked.
my %scripts = (
    'argv-a-part.cgi'  => '@ARGV = $0; print scalar <>; $. = 7;',
    'argv-b-body.cgi'  => 'print "<", join(q{}, <>), "> ", $ARGV // "none", "\n";',
    'argv-c-edits.cgi' => '$^I = q{}; $^F = 9; @ARGV = (); print "set\n";',
    'argv-d-body.cgi'  => 'print "<", join(q{}, <>), "> ", $^I // "none", " $^F\n";',
    'begin-chdir.cgi'  =>
        'use Cwd (); use FindBin; BEGIN { chdir "$FindBin::Bin/inner" } print Cwd::getcwd(), "\n"; chdir "/";',
    'begin-chdir-z.cgi' => 'use Cwd (); print Cwd::getcwd(), "\n";',
    'format-named.cgi' => "our \$name = 'pear'; \$~ = 'ITEM';\nformat ITEM =\n@<<<<< to eat\n\$name\n.\nwrite;",
    'format-none.cgi'  => "our \$name = 'pear';\nformat STDOUT =\n@<<<<<\n\$name\n.\nwrite; print qq{page \$%\\n};",
    'format-top.cgi'   =>
        "our \$name = 'pear';\nformat STDOUT_TOP =\nFruit\n.\nformat STDOUT =\n@<<<<<\n\$name\n.\nwrite; "
        . '$^ = "NOWHERE"; $~ = "NOWHERE"; $= = 3;',
    'variable.cgi' => 'BEGIN { for ($ENV{NOWHERE}) { } } print "x\n";',
);
my @names = sort keys %scripts;

my $scripts = Howdah::Test::Scripts->new(map { ($_ => "$HEAD$scripts{$_}
") } @names);
my $dir     = $scripts->dir;
mkdir "$dir/inner" or die $!;
my $server = Howdah::Test::Server->start(
    options => ['--cgi', "/exec=$dir,mode=exec", '--cgi', "/keep=$dir,mode=keep,workers=1"],
);

# A body, so that what reads standard input has something.
sub ask {
    my ($mode, $name) = @_;
    my $answer = Howdah::Test::Client->ask(
        $server,
        "POST /$mode/$name HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\nthe body"
    );
    return $answer->{error} || "$answer->{status} $answer->{body}";
}

sub compare {
    for my $name (@_) {
        my $wanted = ask('exec', $name);
        is ask('keep', $name), $wanted, "$name, request $_" for 1 .. 3;
    }
    return;
}

subtest 'one after the other, in a worker' => sub {
    compare(@names);
    compare(reverse @names);
};
unlike $server->log, qr/Use of uninitialized/, 'nothing of our own is in the log';
is $server->stop, 0;

done_testing;
