# However a kept CGI script ends, what it has set for the process is gone before the next one runs, and the log has why: also when
# its output is no response, when its handlers do not mean what the server does behind it, and when its client leaves.
use strict;
use warnings;
use lib 't/lib';

use Config qw(%Config);
use Howdah::Test::Client;
use Howdah::Test::Scripts;
use Test::More;

my $HEAD    = qq{#!$^X\nprint "Content-Type: text/plain\\n\\n";\n};
my $LATER   = 'umask 077; $SIG{ALRM} = sub { print STDERR "an alarm of another script" }; alarm 5;';
my $SORRY   = q[$SIG{__DIE__} = sub { print "Content-Type: text/plain\n\nsorry: $_[0]"; exit };];
my $CHUNKED = 'print "Content-Type: text/plain\nTransfer-Encoding: chunked\n\n';
my $AWAIT   = <<'PERL';
sub await { my $end = time + 20; select undef, undef, undef, 0.02 until -e $_[0] || time > $end }
sub say_in { my $name = shift; open my $out, '>', "$name.new"; print {$out} @_; close $out; rename "$name.new", $name }
PERL
my $scripts = Howdah::Test::Scripts->new(
          'above.cgi' => $HEAD
        . 'our @files; open my $first, "<", $0; open my $file, "<", $0; push @files, $file if $ENV{QUERY_STRING}; close $first; print "left"',
    'all.cgi'    => $HEAD . 'require POSIX; POSIX::close($_) for 3 .. 100; print "closed"',
    'asleep.cgi' => "$HEAD$LATER print STDERR 'begun'; sleep 2",
    'blocks.cgi' => $HEAD
        . 'use POSIX; my $old = POSIX::SigSet->new; sigprocmask(SIG_BLOCK, POSIX::SigSet->new(SIGUSR2), $old);'
        . 'print $old->ismember(SIGUSR2)',
    'chunks.cgi'    => "#!$^X\n$LATER" . $CHUNKED . 'no chunks\n"',
    'items.cgi'     => $HEAD . 'print 1, 2, 3',
    'leaves.cgi'    => $HEAD . 'our @files; open my $file, "<", $0; push @files, $file; print length join "", <STDIN>',
    'copy.cgi'      => $HEAD . 'open our $copy, ">&", \\*STDOUT; print $copy "by a copy\n"; print "printed\n"',
    'child.cgi'     => $HEAD . 'my $child = fork or exit; waitpid $child, 0; print "waited"',
    'compiles.cgi'  => $HEAD . 'print "old"',
    'cut.cgi'       => "#!$^X\n$LATER \$| = 1;" . $CHUNKED . '3\r\nabc\r\n"',
    'undefines.cgi' => $HEAD . 'undef *STDERR; print "undefined"',
    'hides.cgi'     => $HEAD . 'require Tie::Handle; tie *STDERR, "Tie::StdHandle", ">", "/dev/null"; print "hidden"',
    'says.cgi'      => $HEAD . 'print STDERR "says $ENV{QUERY_STRING}\n"; print "said"',
    'deletes.cgi'   => $HEAD . 'delete @SIG{qw(PIPE TERM URG)}; print "deleted"',
    'aliases.cgi'   => $HEAD . '*ENV = {QUERY_STRING => "mine"}; print "aliased"',
    'ties.cgi'      => $HEAD . 'require Tie::Hash; tie %ENV, "Tie::StdHash"; print "tied"',
    'program.cgi'   => $HEAD . 'print "$ENV{QUERY_STRING} ", `echo \\$QUERY_STRING`',
    'listed.cgi'    => $HEAD . 'print join " ", map { ref $SIG{$_} } qw(PIPE TERM URG)',
    'eof.cgi'       => $HEAD . 'eof STDOUT; print "asked"',
    'fills.cgi'     => "$HEAD$LATER"
        . 'if (!fork) { exit } wait; our @files; 1 while push(@files, undef) && open $files[-1], "<", $0; print "full"',
    'flush.cgi'   => "#!$^X\n$SORRY" . '$| = 1; print "no head\n"; print STDERR "it goes on"',
    'head.cgi'    => "#!$^X\n$SORRY" . 'print "no head\n\n"',
    'length.cgi'  => $HEAD . 'print length join "", <STDIN>',
    'Kept.pm'     => "package Kept;\nsub line { scalar <DATA> }\n1;\n__DATA__\n" . "data\n" x 10_000,
    'module.cgi'  => $HEAD . 'require "./Kept.pm"; print Kept::line()',
    'lines.cgi'   => $HEAD . 'print $. // "none"; open IN, "<", $0; <IN> for 1, 2; print ", then $."',
    'pid.cgi'     => $HEAD . 'print $$',
    'rand.cgi'    => $HEAD . 'print int rand 1e9',
    'seed.cgi'    => $HEAD . 'srand 42; print int rand 1e9',
    'pipe.cgi'    => $HEAD . 'open PIPE, "| cat"; print PIPE "by a program\n"; print "printed\n"',
    'upload.cgi'  => $HEAD . 'use CGI; my $q = CGI->new; print $q->tmpFileName($q->upload("f"))',
    'sorry.cgi'   => "#!$^X\n$SORRY" . 'die "on purpose\n"',
    'thread.cgi'  => "#!$^X\nuse threads;" . 'print "Status: 200\n\n"; threads->create(sub { print "joined" })->join',
    'threads.cgi' => "#!$^X\nuse threads;"
        . 'print "Status: 200\n\nleft"; threads->create(sub { sleep 1; $| = 1; print "late" })->detach',
    'waits.cgi' => $HEAD . 'sleep 2',
    'held.cgi'  => $HEAD
        . 'use POSIX; sigprocmask(SIG_BLOCK, POSIX::SigSet->new(SIGALRM, SIGVTALRM)); kill $_ => $$ for qw(ALRM VTALRM); print "held"',
    'term.cgi' => $HEAD . '$SIG{TERM} = sub { print STDERR "not for others" }; print "has a handler"',
    'slow.cgi' => "$HEAD$AWAIT"
        . 'use POSIX; pipe my $out, my $in; if (!fork) { await("terminated"); syswrite $in, "read"; POSIX::_exit(0) }'
        . 'say_in("slow"); my $got = POSIX::read(fileno $out, my $text, 9); print $got ? $text : "no: $!"',
    'reads.cgi' => "$HEAD$AWAIT"
        . '$| = 1; print "left"; if (!fork) { await("now"); my @read = <STDIN>; print "late"; say_in("read", @read); exit }',
    'later.cgi' => "$HEAD$AWAIT"
        . 'print "left"; if (!fork) { close STDOUT; await("go"); say_in("body", <STDIN>); exit }',
    'asks.cgi' => "$HEAD$AWAIT" . 'say_in("now"); await("read"); print <STDIN>',
    (
        map { ("stays-$_.cgi" => $HEAD
                . '$| = 1; print "left"; if (!fork) { close STDOUT; close STDIN; for (1 .. 10) { sleep 1; exit if getppid == 1 } exit }'
        ) } 1,
        2
    ),
    'state.cgi' => $HEAD . 'printf "%o %s%s", umask, ref $SIG{ALRM}, alarm 0;',
);
umask 022;
my $server = $scripts->serve('keep', ['workers=1'], '--abort-on-disconnect');
my ($worker) = $server->workers;

sub get { return $scripts->get($server, $_[0]) }

# Asks, and leaves once the log has a word of it.
sub leave {
    my ($name, $word) = @_;
    my $client = Howdah::Test::Client->asking($server, "/c/$name");
    ok $server->wait_for_log(qr{ GET /c/\Q$name\E: $word}), "$name: $word";
    close $client->socket;
    return;
}

subtest 'a handler of deaths' => sub {
    is get('sorry.cgi')->{body}, "sorry: on purpose\n", 'is called for those of the script';
    my $why = qr{line 1 of its output is "no head"};
    is get('head.cgi')->{status}, 500;
    ok $server->wait_for_log(qr{ERROR .* GET /c/head\.cgi: .*: $why}), '... but not for ours';
    is get('flush.cgi')->{status}, 500;
    ok $server->wait_for_log(qr{ERROR .* GET /c/flush\.cgi: .*: $why}), '... nor while the script runs';
    like $server->log, qr/it goes on/, '... which goes on';
};

for my $name (qw(chunks.cgi cut.cgi)) {
    subtest "$name, whose body is not in chunks" => sub {
        get($name);
        ok $server->wait_for_log(qr{ERROR .* GET /c/\Q$name\E: .*/\Q$name\E: .*chunked, but its body}), 'is told';
        is get('state.cgi')->{body}, '22 0', '... and leaves nothing behind';
    };
}

subtest 'a descriptor that is left behind a body of 2 MB' => sub {
    my $head = "POST /c/leaves.cgi HTTP/1.1\r\nHost: x\r\nContent-Length: 2000000\r\n\r\n";
    is +Howdah::Test::Client->ask($server, $head . 'x' x 2_000_000)->{body}, 2_000_000;
    is get('state.cgi')->{body}, '22 0';
    $server->wait_for_log(qr/leaves a descriptor open/);
    my @told = $server->log =~ /(\S+) leaves a descriptor open/g;
    is "@told", $scripts->dir . '/leaves.cgi', 'is told of whoever has left it';
};

# Its number is not the lowest that was free, which is free again.
subtest 'a descriptor that is left above one that is closed' => sub {
    my $above = $scripts->dir . '/above.cgi';
    is get($_)->{body}, 'left' for 'above.cgi', 'above.cgi?more';
    ok $server->wait_for_log(qr{\Q$above\E leaves a descriptor open: \d+ \(\Q$above\E\)}), 'is told';
    my $head = "POST /c/length.cgi HTTP/1.1\r\nHost: x\r\nContent-Length: 2000000\r\n\r\n";
    is +Howdah::Test::Client->ask($server, $head . 'x' x 2_000_000)->{body}, 2_000_000;
    is get('module.cgi')->{body}, "data\n";
    is get('state.cgi')->{body}, '22 0';
    unlike $server->log, qr/(?:length|module)\.cgi leaves/, 'a body and the data of a module are not';
};

subtest 'a file that is uploaded by CGI.pm' => sub {
    eval { require CGI; 1 } or plan skip_all => 'CGI is not installed';
    my $body = join "\r\n", '--x', 'Content-Disposition: form-data; name="f"; filename="a"', '', 'its text', '--x--',
        '';
    my $head = join "\r\n", 'POST /c/upload.cgi HTTP/1.1', 'Host: x', 'Content-Type: multipart/form-data; boundary=x';
    my $file =
        Howdah::Test::Client->ask($server, "$head\r\nContent-Length: " . length($body) . "\r\n\r\n$body")->{body};
    like $file, qr{\A/}, 'is in a file';
    ok $server->wait_until(sub { !-e $file }), '... which is gone behind its request';
    unlink $file;
};

subtest 'a client that leaves' => sub {
    leave('asleep.cgi', 'begun');
    is get('state.cgi')->{body}, '22 0', 'in the last statement: nothing stays';
    my $slow = 'BEGIN { print STDERR "compiling"; select undef, undef, undef, 0.1 for 1 .. 10 }';
    $scripts->write('compiles.cgi', "$HEAD$slow print 'new'");
    leave('compiles.cgi', 'compiling');
    is get('compiles.cgi')->{body}, 'new', 'while a script is compiled: it is, all the same';
};

is get('lines.cgi')->{body}, 'none, then 2', "lines are counted from the first one, request $_" for 1 .. 3;
is get('blocks.cgi')->{body}, 0, "a signal that a script blocks is blocked for no other, request $_" for 1, 2;

subtest 'a handle in a package variable that leads to the output' => sub {
    is get('copy.cgi')->{body}, "printed\nby a copy\n", "is written when the script ends, request $_" for 1, 2;
    is get('child.cgi')->{body}, 'waited', '... and not into the next answer';
};

is get('held.cgi')->{body}, 'held', "signals that a script blocks until it ends are not for its worker, request $_"
    for 1, 2;

is get($_)->{body}, /del/ ? 'deleted' : 'CODE CODE CODE', "handlers that a script deletes: $_"
    for qw(deletes.cgi listed.cgi);

for my $script (qw(undefines.cgi hides.cgi)) {
    subtest "$script, where STDERR leads nowhere" => sub {
        like get($script)->{body}, qr/^(?:undefined|hidden)$/;
        is get("says.cgi?$script")->{body}, 'said';
        ok $server->wait_for_log(qr{GET /c/says\.cgi\S*: says \Q$script\E}), 'the log has what the next script says';
    };
}

for my $script (qw(aliases.cgi ties.cgi)) {
    subtest "$script, where %ENV becomes another hash" => sub {
        like get($script)->{body}, qr/^(?:aliased|tied)$/;
        is get('program.cgi?q')->{body}, "q q\n", 'programs of the next script have its variables';
    };
}

is get('pid.cgi')->{body}, $worker, 'one worker has run all of them';

is get('pipe.cgi')->{body}, "printed\nby a program\n",
    'a program at a handle with a name says its last behind what is printed';

subtest 'children that go on' => sub {
    is get('stays-1.cgi')->{body}, 'left';
    is get('child.cgi')->{body}, 'waited' for 1, 2;
    is get('stays-2.cgi')->{body}, 'left';
    my $listed = -e '/proc/thread-self/children';
    ok $server->wait_for_log(qr{/stays-2\.cgi leaves children}) if $listed;
    my @told = $server->log =~ m{/([\w-]+)\.cgi leaves children}g;
    is "@told", $listed ? 'stays-1 stays-2' : 'stays-1',
        'are told of whoever has left them, and of nobody who waits for his';
};

subtest 'a child that goes on to read and to print' => sub {
    is get('reads.cgi')->{body}, 'left';
    my $head = "POST /c/asks.cgi HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\n";
    is +Howdah::Test::Client->ask($server, "${head}secret")->{body}, 'secret',
        'takes nothing of the next body, and adds nothing to the next answer';
    is $scripts->read('read'), '', '... and sees nothing of the body';
};

subtest 'a child that reads the body when the next request, which has none, is answered' => sub {
    my $head = "POST /c/later.cgi HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\n";
    is +Howdah::Test::Client->ask($server, "${head}upload")->{body}, 'left';
    is get('length.cgi')->{body}, 0, 'no body';
    $scripts->write('go', '');
    ok $server->wait_until(sub { defined $scripts->read('body') });
    is $scripts->read('body'), 'upload', 'has it whole';
};

subtest 'a seed for random numbers' => sub {
    my @numbers = map {
        map { get($_)->{body} }
            qw(seed.cgi rand.cgi)
    } 1, 2;
    is $numbers[2], $numbers[0], 'gives the script that has chosen it the same ones each time';
    isnt $numbers[3], $numbers[1], '... and nobody else';
};

subtest 'an error at STDOUT' => sub {
    is get('eof.cgi')->{body}, 'asked';
    is get('items.cgi')->{body}, '123', 'is gone with the script';
};

subtest 'all descriptors closed, those of the worker, too' => sub {
    is get('all.cgi')->{body}, 'closed';
    isnt get('pid.cgi')->{body}, $worker, 'the worker ends';
    ok $server->wait_for_log(qr{/all\.cgi closes descriptors that are not its own}), '... which is told';
    $worker = get('pid.cgi')->{body};
};

subtest 'all descriptors taken, so that there is none to clean up with' => sub {
    system('prlimit', '--pid', $worker, '--nofile=80') == 0 or plan skip_all => 'no prlimit (util-linux)';
    is get('fills.cgi')->{body}, 'full';
    is get('state.cgi')->{body}, '22 0', 'nothing stays behind';
    isnt get('pid.cgi')->{body}, $worker, '... since the worker ends';
    $worker = get('pid.cgi')->{body};
};

subtest 'threads that go on' => sub {
    plan skip_all => 'a perl without threads' if !$Config{useithreads};
    is get('thread.cgi')->{body}, 'joined', 'one that has ended is nothing';
    is get('pid.cgi')->{body}, $worker;
    is get('threads.cgi')->{body}, 'left', 'one that has not';
    isnt get('pid.cgi')->{body}, $worker, '... ends with its worker';
    is get('waits.cgi')->{body}, '', '... and prints into no other answer';
    ok $server->wait_for_log(qr{/threads\.cgi leaves threads running}), '... which is told';
};

subtest 'a worker that is to leave' => sub {
    $worker = get('pid.cgi')->{body};
    is get('term.cgi')->{body}, 'has a handler';
    my $client = Howdah::Test::Client->asking($server, '/c/slow.cgi');
    ok $server->wait_until(sub { defined $scripts->read('slow') });
    kill TERM => $worker;
    sleep 1;
    $scripts->write('terminated', '');
    is $client->response->{body}, 'read', 'interrupts no read, whatever handlers scripts have had';
    isnt get('pid.cgi')->{body}, $worker, '... and leaves behind it';
    unlike $server->log, qr/not for others/;
};
unlike $server->log, qr/an alarm of another script/;
is $server->stop, 0;

done_testing;
