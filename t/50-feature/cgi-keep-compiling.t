# What a kept CGI script sets for the process while it is compiled is gone for the scripts that are compiled after it, and for all
# that run; what can be set up again is there whenever it runs itself.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Scripts;
use Test::More;
use Time::HiRes qw(sleep time);

my $HEAD = qq{#!$^X\nprint "Content-Type: text/plain\\n\\n";\n};

# What is compiled, what it prints then, and what the script prints that is compiled after all others.
my %cases = (
    'alarm.cgi' => ['BEGIN { $SIG{ALRM} = sub { die "late" }; alarm 1 }', 'ref($SIG{ALRM}) . alarm 0', 'CODE0', 0],
    'block.cgi' => ["use POSIX ();\nBEGIN { POSIX::sigprocmask(POSIX::SIG_BLOCK(), POSIX::SigSet->new(28)) }", 1, 1, 0],
    'pipe.cgi'  => ['BEGIN { $SIG{PIPE} = "IGNORE" }', '$SIG{PIPE}', 'IGNORE', 'CODE'],
    'warn.cgi'  => ['BEGIN { $SIG{__WARN__} = sub { } }', 'ref $SIG{__WARN__}', 'CODE', ''],
    'umask.cgi' => ['BEGIN { umask 077 }', 'sprintf "%o", umask', 77, 22],
    'term.cgi'  => ['BEGIN { $SIG{TERM} = sub { } }', 'ref $SIG{TERM}', 'CODE', 'CODE'],
);
my $SHOWS   = qq{print "Content-Type: text/html\\n\\n"; warn "shown"; warningsToBrowser(1);\n};
my %MODULES = (
    Block   => '{ package Block; $Block::loads++ } 1;',
    OneLine => 'use strict; package OneLine; our $loads; $loads++; 1;',
    Loop    => 'package Loop; use FCGI; my $request = FCGI::Request(); sub more { $request->Accept >= 0 } 1;',
    Hidden  => "package # from PAUSE\n    Hidden;\nour \$loads; \$loads++; 1;",
);
my $scripts = Howdah::Test::Scripts->new(
    (map { ($_ => "$HEAD$cases{$_}[0]\nprint $cases{$_}[1];\n") } keys %cases),
    'z.cgi' => $HEAD . <<'PERL',
use POSIX ();
my $blocked = POSIX::SigSet->new;
POSIX::sigprocmask(POSIX::SIG_BLOCK(), POSIX::SigSet->new, $blocked);
my %is = (
    'alarm.cgi' => alarm 0, 'block.cgi' => $blocked->ismember(28), 'pipe.cgi' => ref $SIG{PIPE}, 'term.cgi' => ref $SIG{TERM},
    'warn.cgi' => ref $SIG{__WARN__}, 'umask.cgi' => sprintf '%o', umask
);
print $is{$ENV{QUERY_STRING} =~ s/n=//r};
PERL
    (map { ("carp-$_.cgi" => "#!$^X\nuse CGI::Carp qw(warningsToBrowser);\n$SHOWS") } 1, 2),
    'emacs.cgi'   => qq{#!$^X -w -- -*- perl -*-\nprint "Content-Type: text/plain\\n\\n\$^W";\n},
    'fast.cgi'    => "#!$^X\nuse CGI::Fast;\nwhile (CGI::Fast->new) { }\n",
    'modules.cgi' => $HEAD
        . 'BEGIN { require File::Basename; unshift @INC, File::Basename::dirname(__FILE__) . "/.lib" }'
        . 'require Block; require OneLine; require Hidden; print "$Block::loads $OneLine::loads $Hidden::loads";',
    'errors.cgi' => qq{#!$^X\nBEGIN { open LOG, '>>', 'own.log'; open STDERR, '>&', \*LOG }\n}
        . 'print "Content-Type: text/plain\n\n"; warn "of its own\n"; system "echo of its program >&2"',
    'fcgi.cgi'   => "#!$^X\nuse FCGI;\nmy \$request = FCGI::Request();\nwhile (\$request->Accept >= 0) { }\n",
    'closes.cgi' => "$HEAD close STDOUT; close STDIN; close STDERR;",
    'here.cgi'   => "$HEAD print <<A, <<'B';\npackage main;\nA\n1 << 2\nB\n"
        . "package Other; sub own { 'other' } package main; sub own { 'own' } print own(), 1 << 2;\n",
    'relative.cgi' => "$HEAD use Early; require Late; print Early::name(), Late::name();",
    'pod.cgi'      =>
        "$HEAD print 'no loop';\n\n=head1 SYNOPSIS\n\n  use CGI::Fast;\n\n=cut\n\nprint '.'\n__END__\nuse FCGI;\n",
    'prints.cgi' => qq{#!$^X\nBEGIN { print "Content-Type: text/plain\\n\\n" }\nprint "main";\n},
    'loop.cgi'   => "#!$^X\n" . 'use lib ".lib"; use Loop; print "Content-Type: text/plain\n\n" while Loop::more();',
    (
        map { ("shop-$_.cgi" =>
                "$HEAD package Shop; sub total { '$_' } sub of_$_ { } package main; print Shop::total();\n") } 1,
        2
    ),
    'page.cgi' =>
        qq{#!$^X\nBEGIN { open STDERR, '>&', \*STDOUT; \$| = 1 }\nprint "Content-Type: text/plain\\n\\n"; warn "shown";\n},
    'warns.cgi'  => qq{$HEAD warn "of another";\n},
    'writes.cgi' => $HEAD . 'pipe my $in, my $out; close $in; $| = 1; syswrite $out, "x" and die; print "alive";',
);
mkdir $scripts->dir . $_ or die $! for qw(/.lib /.lib/shop);
$scripts->write(".lib/$_.pm", "#!\n$MODULES{$_}") for keys %MODULES;
$scripts->write(".lib/shop/$_.pm", "#!\npackage $_; sub name { '$_' } 1;") for qw(Early Late);
umask 022;
my $server = $scripts->serve('keep', ['workers=1'], '--chdir', $scripts->dir . '/.lib', '-I', 'shop');
my ($worker, $zygote) = map { $server->processes($_) } qw(worker zygote);
my $start = time;

sub check {
    my $when = shift;
    for my $name (sort keys %cases) {
        my (undef, undef, $own, $others) = @{$cases{$name}};
        is $scripts->get($server, $name)->{body}, $own, "$name, $when: its own";
        is $scripts->get($server, "z.cgi?n=$name")->{body}, $others, '... and not that of others';
    }
    check_errors($_, $when) for 1, 2;
    is $scripts->get($server, 'prints.cgi')->{body}, 'main', 'what a BEGIN block prints is part of each answer'
        for 1, 2;
    is $scripts->get($server, 'writes.cgi')->{body}, 'alive', 'a pipe without a reader ends nobody';
    return is_deeply [$server->workers], [$worker], 'the worker is the same';
}

sub check_errors {
    my ($time, $when) = @_;
    $scripts->get($server, 'errors.cgi');
    is $scripts->read('own.log'), "of its own\nof its program\n" x $time,
        "standard error of a script, $when, request $time";
    like $scripts->get($server, 'page.cgi')->{body}, qr/^shown at .*page\.cgi line 3\.$/, '... and in the page';
    my $from = length $server->log;
    $scripts->get($server, 'warns.cgi');
    ok $server->wait_until(sub { substr($server->log, $from) =~ m{ GET /c/warns\.cgi: of another at} }),
        '... and not of others';
    return;
}

check('compiled before the fork');
$scripts->write($_, "$HEAD$cases{$_}[0]\n\nprint $cases{$_}[1];\n") for keys %cases;
unlink $scripts->dir . '/own.log' or die $!;
for my $name (qw(errors page prints)) {
    my $text = $scripts->read("$name.cgi");
    $scripts->write("$name.cgi", "$text\n");
}
check('compiled by the worker');
subtest 'a handler of warnings that a module sets once is there for each script that uses it' => sub {
    plan skip_all => 'no CGI here' if !eval { require CGI; 1 };
    like $scripts->get($server, "carp-$_.cgi")->{body}, qr/<!-- warning: .*shown/, "script $_" for 1, 2, 1;
};
is $scripts->get($server, 'modules.cgi')->{body}, '1 1 1', 'modules are loaded once, wherever they say their package'
    for 1, 2;
is $scripts->get($server, 'relative.cgi')->{body}, 'EarlyLate',
    '... also from a directory that counts from that of the server';
is $scripts->get($server, 'emacs.cgi')->{body}, 1, 'what stands behind -- on the first line is no switch';
is $scripts->get($server, 'fast.cgi')->{status}, 500, "CGI::Fast's loop is refused";
ok $server->wait_for_log(qr{/fast\.cgi: the loop of CGI::Fast .*mode=fork}), '... with a way out'
    or diag $server->log;
is $scripts->get($server, 'fcgi.cgi')->{status}, 500, '... and that of FCGI';
is $scripts->get($server, 'pod.cgi')->{body}, 'no loop.', '... but not where POD and data tell of them';
is $scripts->get($server, 'here.cgi')->{body}, "package main;\n1 << 2\nown4", 'a here-document stays as it is';
subtest '... and where only a module of the script has it' => sub {
    plan skip_all => 'no FCGI here' if !eval { require FCGI; 1 };
    is $scripts->get($server, 'loop.cgi')->{status}, 500, "request $_" for 1, 2;
    ok $server->wait_for_log(qr{/loop\.cgi: the loop of FCGI .*mode=fork}), 'with a way out';
    unlike $server->log, qr/Prototype mismatch/, '... and nothing else';
};
ok $server->wait_for_log(qr{/shop-2\.cgi: sub Shop::total takes the place of that of \S+/shop-1\.cgi, .*mode=fork}),
    'a package that two scripts name is told of'
    or diag $server->log;
unlike $server->log, qr{sub (?:Shop::of_|\S*Kept)\S* takes the place}, '... and nothing else';
is $scripts->get($server, 'closes.cgi')->{status}, 200, 'a script that closes its handles is answered' for 1, 2;
unlike $server->log, qr/reopened/, '... and whoever opens them anew does so without a word';
sleep 0.1 until time > $start + 2;
is_deeply [$server->processes('zygote')], [$zygote], 'and the zygote, longer than the timer';
is $server->stop, 0;

subtest 'handlers that a module of -M has set, in whose place a script puts its own' => sub {
    my $own = Howdah::Test::Scripts->new(
        'own.cgi' => $HEAD . '@SIG{qw(__WARN__ __DIE__)} = (sub { print "own " }) x 2; warn "x\n"; eval { die "x\n" };',
        'show.cgi' => $HEAD . 'print join " ", map { $_ == \&Early::note } @SIG{qw(__WARN__ __DIE__)};',
    );
    mkdir $own->dir . '/.lib' or die $!;
    $own->write('.lib/Early.pm', "#!\npackage Early; sub note { } \@SIG{qw(__WARN__ __DIE__)} = (\\&note) x 2; 1;");
    my $early = $own->serve('keep', ['workers=1'], '-I', $own->dir . '/.lib', '-M', 'Early');
    is $own->get($early, 'show.cgi')->{body}, '1 1';
    is $own->get($early, 'own.cgi')->{body}, 'own own ';
    is $own->get($early, 'show.cgi')->{body}, '1 1', 'are there again behind it';
    is $early->stop, 0;
};

done_testing;
