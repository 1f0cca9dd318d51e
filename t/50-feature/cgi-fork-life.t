# --cgi with mode=fork: the zygotes of scripts follow changed files, say what does not compile and where a script hangs, and
# are replaced when they die; what cannot be forked is executed.
use strict;
use warnings;
use lib 't/lib';

use Config qw(%Config);
use Fcntl qw(O_DIRECTORY O_RDWR);
use Howdah::Test::Client;
use Howdah::Test::Scripts;
use Test::More;

my $perl    = "#!$^X\n";
my $head    = qq{print "Content-Type: text/plain\\n\\n";\n};
my $tmpfile = 1 << 22 | O_DIRECTORY | O_RDWR;    # O_TMPFILE: such a file is made and cannot be opened by that again
my $warm =
    qq{if (\$ENV{QUERY_STRING}) { print "Content-Type: text/plain\\n\\nwarm"; exit } };    # one line with what follows

# What no forked process could have of its own, by the script that makes it while it is compiled, and what the log says.
my %unfit = (
    socket => [
        'use Socket; socketpair my $a, our $b, AF_UNIX, SOCK_STREAM, 0 or die', 'it has a connection at descriptor \d+'
    ],
    pipe  => ['pipe our $in, our $out or die', 'it has pipe:\[\d+\] at descriptor \d+'],
    alarm => ['alarm 100', 'it sets an alarm while'],
    sysopen(my $file, '/tmp', $tmpfile)
    ? (
        file => [
            "sysopen our \$file, '/tmp', $tmpfile or die",
            'it has a file that cannot be opened again at descriptor \d+'
        ]
        )
    : (),
    generator => [
        '$INC{"Session/Token.pm"} = 1; our $tokens = bless \my $state, "Session::Token"',
        'it has a random number generator, an object of Session::Token, once'
    ],
    module => ['$INC{"Math/Prime/Util.pm"} = 1', 'it has a random number generator, that of Math::Prime::Util, once'],
    key    => [
        '$CryptX::VERSION = "0.087"; our $key = bless \my $state, "Crypt::PK::ECC"',
        'it has a random number generator, an object of Crypt::PK::ECC, once'
    ],
    child => ['if (!fork) { close STDOUT; exec "sleep", 1 }', 'it starts a process while'],
    $Config{useithreads}
    ? (thread => ['require threads; threads->create(sub { sleep 1 })->detach', 'it starts a thread while'])
    : (),
);
my $scripts = Howdah::Test::Scripts->new(
    (map { ("$_.pl" => "${perl}BEGIN { $unfit{$_}[0] }\n${head}print 'executed';\n") } keys %unfit),
    'regex.pl'  => qq{${perl}${warm}sub slow { return ('a' x 60 . 'cb') =~ /^((a|aa)+)\\1b/ }\nslow('secret');\n},
    'system.pl' =>
        qq{${perl}${warm}package Deep;\nsub wait_long { sleep 600 }\neval { main->can('run')->() };\nsub main::run { wait_long() }\n},
    'orderly.pl' =>
        qq{${perl}${warm}\$SIG{TERM} = sub { warn "told to end\\n"; exit };\nEND { warn "END block\\n" }\nsleep 600;\nwarn "went on\\n";\n},
    'compile.pl' => qq{${perl}BEGIN { sleep 600 }\n},
    'stuck.pl'   => qq{${perl}BEGIN { sleep 600 }\n}, # no one has waited for it yet, and it is not given up for a while
    'part.pl'    => qq{${perl}use lib '.';\nuse Part;\n${head}print Part::text();\n},
    'begun.pl'   =>
        "${perl}BEGIN { rand; my \$end = <STDIN> }\n${head}print join ' ', time - \$^T, int rand 1e9, <STDIN>;\n",
    'Whole.pm'  => qq{package Whole;\nsub import { ${head}print "asked for \$ENV{QUERY_STRING}\n" }\n1;\n},
    'whole.pl'  => qq{${perl}use lib '.';\nuse Whole;\n1;\n},
    'title.pl'  => qq{${perl}${head}open my \$in, '<', '/proc/self/cmdline'; print map "\$_ ", split /\\0+/, <\$in>;\n},
    'signal.pl' => qq{${perl}BEGIN { \$SIG{USR1} = sub { our \$signals++ } }\n${head}print our \$signals // 'none';\n},
    'lost.pl'   => qq{#!/no/such/perl\n$head},
    'other.sh'  => qq{printf 'Content-Type: text/plain\\n\\nno perl'\n},
);
module('first');
my $server = $scripts->serve('fork', [qw(workers=4 request-timeout=2500ms)]);

my @begun = begun('one');

# Where each stands.
my @hanging = (
    ['regex.pl', qr{perl stands at \S*/regex\.pl line 2\n.*  in main::slow, called at \S*/regex\.pl line 3\n}],
    [
        'system.pl',
        qr{perl stands at \S*/system\.pl line 3\n.*in Deep::wait_long, called at \S* line 5\n.*in main::run, called.*in eval, called}s
    ],
);
for (@hanging) {
    my ($name, $where) = @$_;
    becomes("$name?warm", 200, 'warm', "$name is compiled");
    is $scripts->get($server, $name)->{status}, 504, '... and takes too long';
    ok $server->wait_for_log($where), '... and says where it stands';
}
unlike $server->log, qr/secret/, 'no argument is in the log';

becomes('orderly.pl?warm', 200, 'warm', 'a script that puts its things in order');
is $scripts->get($server, 'orderly.pl')->{status}, 504, '... and takes too long';
ok $server->wait_for_log(qr{orderly\.pl: perl stands at \S*/orderly\.pl line \d+\n.*told to end\n.*END block\n}s),
    '... says where it stands, and has its handler of TERM and its END blocks as under exec';
unlike $server->log, qr/went on/, '... and does not go on before that';

for my $again (begun('two')) {
    cmp_ok $again->[0], '<=', 1, 'a process begins when its request comes';
    isnt $again->[1], $begun[0][1], '... with random numbers of its own';
    is "$begun[0][2] $again->[2]", 'one two', '... and its body, though a block has read to the end before';
}
is $scripts->get($server, 'compile.pl')->{status}, 504, 'a script that hangs while it is compiled takes too long';

becomes('part.pl', 200, 'first', 'a script with a module');
module('second');
becomes('part.pl', 200, 'second', 'a changed module is seen');
$scripts->write('part.pl', qq{$perl\nmy \$x = ;\n});
becomes('part.pl', 500, undef, 'a version that does not compile');
ok $server->wait_for_log(qr{part\.pl: it does not compile: syntax error at \S*/part\.pl line 3}),
    '... is told with file and line';
$scripts->write('part.pl', qq{${perl}${head}print 'third';\n});
becomes('part.pl', 200, 'third', 'one that compiles again');

for my $name (sort keys %unfit) {
    becomes("$name.pl", 200, 'executed', "a script with what only one process can have, $name, is executed");
    ok $server->wait_for_log(qr{/$name\.pl: is executed and not forked: $unfit{$name}[1]}), '... and the log says why';
}
becomes("whole.pl?$_", 200, "asked for $_\n", 'so is one that a module runs whole where it is used')
    for qw(one another);
is $scripts->get($server, 'other.sh')->{body}, 'no perl', 'so is one that is no Perl';

is $scripts->get($server, 'lost.pl')->{status}, 500, 'one whose perl is not there';
ok $server->wait_for_log(qr{/lost\.pl: cannot be run: No such file or directory.* #! line names}),
    '... is told from one that does not compile';

my $titles = $scripts->get($server, 'title.pl')->{body};
is $titles, "$^X " . $scripts->dir . '/title.pl ', 'a process is called as if it had been executed';
ok scalar(zygotes('title.pl')), 'and its zygote as what it is';

becomes('signal.pl', 200, 'none', 'a process that has had no signal');
kill USR1 => zygotes('signal.pl');
is $scripts->get($server, 'signal.pl')->{body}, 'none', '... has none of its zygote';

my %status;
for (1 .. 20) {
    kill KILL => zygotes('title.pl');
    $status{$scripts->get($server, 'title.pl')->{status}}++ for 1 .. 10;
}
my $lost = $status{502} // 0;
is $lost + ($status{200} // 0), 200, 'when zygotes are killed each request is answered';
cmp_ok $lost, '<=', 20, '... and at most the ones that they had are lost';

my $stuck = Howdah::Test::Client->asking($server, '/c/stuck.pl');
ok $server->wait_until(sub { running('stuck.pl') }), 'a script is being compiled';
kill KILL => $server->processes('cgi-host');
ok $server->wait_until(sub { !running('') }), 'when the host is killed, so are all zygotes';
becomes('title.pl', 200, undef, 'and another host begins anew');
unlike $server->log, qr{/title\.pl: is executed}, 'which is forked all the time';
is $server->stop, 0;

done_testing;

# Processes whose command line names a script.
sub running {
    my $name = shift;
    return grep { index($_, $scripts->dir . "/$name") >= 0 }
        grep { !/cgi-host|--cgi/ } map { title($_) } glob '/proc/[0-9]*/cmdline';
}

sub title {
    my $file = shift;
    open my $in, '<', $file or return '';
    return scalar(<$in>) // '';
}

# What the process of begun.pl says of itself.
sub begun {
    my $body     = shift;
    my $response = Howdah::Test::Client->ask(
        $server,
        "POST /c/begun.pl HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nConnection: close\r\n\r\n$body"
    );
    return [split / /, $response->{body}];
}

sub module { return $scripts->write('Part.pm', "package Part; sub text { '$_[0]' } 1;\n") }

sub zygotes {
    my $name = shift;
    my @found;
    for my $file (glob '/proc/[0-9]*/cmdline') {
        my $title = title($file) =~ s/\0+\z//r;
        push @found, $file =~ /(\d+)/ if $title eq 'howdah: cgi zygote ' . $scripts->dir . "/$name";
    }
    return @found;
}

# Files are looked at once a second.
sub becomes {
    my ($name, $status, $body, $what) = @_;
    my $heard;
    my $is_it = sub {
        $heard = $scripts->get($server, $name);
        return $heard->{status} == $status && (!defined $body || $heard->{body} eq $body);
    };
    ok $server->wait_until($is_it), $what or diag explain $heard;
    return;
}
