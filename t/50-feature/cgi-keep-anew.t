# Each request of a kept CGI script finds things as a process of its own would: what the requests before it, of this script and of
# others, have left half done, what its BEGIN blocks have set, and what becomes of its children and threads. The same scripts are
# executed, and have to answer alike.
use strict;
use warnings;
use lib 't/lib';

use Config;
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
    'child-dies.cgi'    => '$| = 1; if (!fork) { die "the child is unhappy\n" } wait; print $? >> 8, "\n";',
    'child-end.cgi'     => '$| = 1; our $role = "parent"; END { print "END of the $role, $?\n" } '
        . 'if (!fork) { $role = "child"; eval { exit 6 }; print "not here\n" } wait; print $? >> 8, "\n"; $? = 0;',
    'child-exits.cgi' => '$| = 1; if (!fork) { print "child\n"; exit 3 } wait; print $? >> 8, "\n";',
    'child-pipe.cgi'  =>
        '$| = 1; defined(my $pid = open my $in, "-|") or die; if (!$pid) { print "from the child\n"; exit 3 }; print <$in>;',
    'child-plain.cgi'   => '$| = 1; if (!fork) { system "exit 4"; print "child\n" } else { wait; print $? >> 8, "\n" }',
    'data-of-main.cgi'  => "print while <DATA>;\npackage Other;\n__END__\nfor the program\n",
    'data-of-other.cgi' => "print while <Other::DATA>;\npackage Other;\n__DATA__\nfor the other package\n",
    'destroy-exits.cgi' =>
        '{ package Ends; sub DESTROY { exit 5 if $$ != $_[0][0] } } $| = 1; my $object = bless [$$], "Ends"; '
        . 'if (!fork) { undef $object; print "not here\n" } wait; print $? >> 8, "\n";',
    'end-by-exit.cgi'  => 'END { print "$?\n" } system "exit 3"; exit 4;',
    'end-itself.cgi'   => 'END { print "$?\n" } system "exit 3";',
    'end-twice.cgi'    => 'END { print "$?\n" } END { system "exit 2" } system "exit 3";',
    'exec-end.cgi'     => 'END { print "END\n" } $| = 1; exec "echo", "of the program";',
    'exec-fails.cgi'   => 'END { print "END\n" } $| = 1; no warnings; exec "/nowhere/program" or print "goes on\n";',
    'find-a.cgi'       => 'use FindBin; print "$FindBin::Bin $FindBin::Script\n";',
    'format-named.cgi' => "our \$name = 'pear'; \$~ = 'ITEM';\nformat ITEM =\n@<<<<< to eat\n\$name\n.\nwrite;",
    'format-none.cgi'  => "our \$name = 'pear';\nformat STDOUT =\n@<<<<<\n\$name\n.\nwrite; print qq{page \$%\\n};",
    'format-top.cgi'   =>
        "our \$name = 'pear';\nformat STDOUT_TOP =\nFruit\n.\nformat STDOUT =\n@<<<<<\n\$name\n.\nwrite; "
        . '$^ = "NOWHERE"; $~ = "NOWHERE"; $= = 3;',
    'format-words.cgi' => "our \$text = 'one-two three';\nformat STDOUT =\n^<<<~~\n\$text\n.\nwrite; print \$^L, '|'; "
        . '$: = "x"; $^L = "y";',
    'glob-a-both.cgi'  => '*STDERR = *STDOUT; $| = 1; print STDERR "page\n"; warn "in the page\n";',
    'glob-b-log.cgi'   => '$| = 1; warn "not in the page\n"; print "page\n"; system "echo of a program";',
    'glob-c-other.cgi' => 'open OTHER, ">", "/dev/null"; print "page\n"; *STDOUT = *OTHER; print "nowhere\n";',
    'glob-d-input.cgi' => 'print scalar <STDIN>; open OTHER, "<", $0; *STDIN = *OTHER; print scalar <STDIN>;',
    (
        map { (
            "glob-e-$_.cgi" => "delete \$main::{$_}; print qq{page\\n};",
            "glob-f-$_.cgi" => "undef *$_; print qq{page\\n};"
        ) } qw(STDIN STDOUT STDERR)
    ),
    'glob-g-body.cgi' => 'print "<", join(q{}, <STDIN>), ">\n"; warn "in the log\n"; print $ENV{REQUEST_METHOD}, "\n";',
    'glob-h-env.cgi'  => 'delete @main::{qw(ARGV ENV INC SIG)}; print "page\n";',
    'glob-i-env.cgi'  =>
        'print $ENV{REQUEST_METHOD}, " ", `echo \$REQUEST_METHOD`; require Text::Wrap; print ref \%SIG, "\n";',
    'source-blank.cgi'  => "print <DATA>;\n  __END__\n} { for the program\n",
    'source-brace.cgi'  => "print name();\nsub name { qq{of the sub\\n} }\x1a",
    'source-code.cgi'   => "print <DATA>; exit; __END__ and more words\n} { for the program\n",
    'source-ctrl-d.cgi' => "print defined fileno DATA ? 'data' : 'none', qq{\\n};\n\x04} { no part of it",
    'source-ctrl-z.cgi' => "print qq{page\\n};\r\n\x1a",
    'source-never.cgi'  =>
        "print length(qq{\x1a; __END__}), qq{\\n}; # } __END__ \x1a\n=pod\n\n; __END__\n\x1a\n\n=cut\n\nprint qq{end\\n};",
    'source-semi.cgi' => "print <DATA>;\n__DATA__;\n} { for the program\n",
    'topic.cgi'       => 'print $_ // "nothing", "\n"; $_ = "left";',
    'variable.cgi'    => 'BEGIN { for ($ENV{NOWHERE}) { } } print "x\n";',
);
my @names = sort keys %scripts;

# Those that no process of its own can be asked for, or not everywhere.
my %others = (
    'object.cgi' =>
        '{ package Thing; sub DESTROY { print "destroyed by ", $$ == $_[0][0] ? "its own\n" : "a child\n" } } '
        . 'our $thing ||= bless [$$], "Thing"; print "kept\n";',
    'thread-exits.cgi' =>
        'use threads; print "begins\n"; threads->create(sub { threads->exit })->join for 1 .. 3; print "ends\n";',
    'thread-prints.cgi' =>
        'use threads; $| = 1; threads->create(sub { print "thread $_[0]\n" }, $_)->join for 1 .. 3; print "ends\n";',
);
my $scripts = Howdah::Test::Scripts->new(map { ($_ => $HEAD . {%scripts, %others}->{$_} . "\n") } @names, keys %others);
my $dir     = $scripts->dir;
mkdir "$dir/inner" or die $!;
$scripts->write('inner/find.cgi', "$HEAD$scripts{'find-a.cgi'}\n");
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
subtest 'each in its own directory'                 => sub { compare(('find-a.cgi', 'inner/find.cgi') x 2) };
subtest 'a child destroys nothing of other scripts' => sub {
    is ask('keep', 'object.cgi'), "200 kept\n" for 1, 2;
    is ask('keep', $_), ask('exec', $_), $_ for grep { /^child-/ } @names;
};
subtest 'the log' => sub {
    ok $server->wait_for_log(qr/the child is unhappy/), 'has what a child dies of' for 1, 2;
    unlike $server->log, qr/Use of uninitialized/, '... and nothing of our own';
};
subtest 'threads' => sub {
    plan skip_all => 'this perl has no threads' if !$Config{useithreads};
    unlike ask('keep', $_), qr/^5/, $_ for 'thread-exits.cgi', ('thread-prints.cgi') x 2;
    like ask('keep', 'thread-exits.cgi'), qr/^200 begins\n(?:.*\n)*ends\n\z/, 'one that ends ends itself' for 1 .. 3;
    like ask('keep', 'thread-prints.cgi'),
        qr/^200 thread 1\n(?:.*\n)*?thread 2\n(?:.*\n)*?thread 3\n(?:.*\n)*?ends\n\z/,
        'what one prints is output' for 1 .. 3;
    unlike $server->log, qr/Use of uninitialized/, 'without a word in the log';
};
is $server->stop, 0;

done_testing;
