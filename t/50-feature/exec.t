# exec by the application: the program goes on as a process of its own, the request is answered, and another worker serves.
use strict;
use warnings;
use lib 't/lib';

use Errno qw(ENOENT);
use Howdah::Test::Client;
use Howdah::Test::Server;
use Test::More;
use Time::HiRes qw(time);

my $server = Howdah::Test::Server->start(app => <<'PSGI', options => ['--workers', 1]);
use warnings;
my $program = 'print {*STDERR} "the program is $$\n"; sleep 60';
my @warnings;
my %do = (
    ''       => sub { [200, [], [$$]] },
    program  => sub { exec $^X, '-e', $program },
    shell    => sub { exec "echo the shell has \\\$0 and is \$\$; exec sleep 60" },
    eval     => sub { eval { local $SIG{__DIE__} = sub { warn "died\n" }; exec $^X, '-e', $program }; [200, [], ['after']] },
    begun    => sub { sub { my $w = shift->([200, []]); $w->write('begun'); exec $^X, '-e', $program } },
    ended    => sub { push @{$_[0]{'psgix.cleanup.handlers'}}, sub { exec $^X, '-e', $program }; [200, [], [$$]] },
    said     => sub { $| = 0; print "said before\n"; exec $^X, '-e', $program },
    none     => sub {
        local $SIG{__WARN__} = sub { push @warnings, @_ };
        my $back = exec { '/no/such/program' } 'it', 'x';
        my $errno = $! + 0;
        [200, [], [join '|', $$, $back ? 'true' : 'false', $errno, map { s/ at .*//sr } splice @warnings]];
    },
    child    => sub {
        my $pid = fork // die;
        exec $^X, '-e', 'exit 7' if !$pid;
        waitpid $pid, 0;
        [200, [], [join ' ', $$, $? >> 8]];
    },
    inetd    => sub {
        my $io = $_[0]{'psgix.io'};
        open my $in, '<&', $io; open my $out, '>&', $io;
        open STDIN, '<&', $in; open STDOUT, '>&', $out;
        exec $^X, '-e', '$| = 1; print {*STDERR} "the program is $$\n"; print "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nby itself"; sleep 60';
    },
);
sub { my $env = shift; $do{substr $env->{PATH_INFO}, 1}->($env) };
PSGI

sub ask {
    my $name = shift;
    my ($begin, $answer) = (time, Howdah::Test::Client->ask($server, "GET /$name HTTP/1.1\r\nHost: x\r\n\r\n"));
    return {%$answer, seconds => time - $begin};
}

my $worker = ask('')->{body};
is ask('none')->{body}, "$worker|false|@{[ENOENT]}|Can't exec \"/no/such/program\": No such file or directory",
    'a program that is not there: exec comes back, and says why, once';
is ask('child')->{body}, "$worker 7", 'a child of the application executes what it likes';
is ask('')->{body}, $worker, '... and the worker goes on';

my @programs;
for my $name (qw(program eval begun said ended)) {
    my $before = ask('')->{body};
    my $answer = ask($name);
    cmp_ok $answer->{seconds}, '<', 30, "$name: nobody waits for the program";
    is $answer->{status}, 500, '... and the client hears that it has failed' if $name =~ /^(?:program|eval|said)$/;
    ok $answer->{error}, '... and the client hears that it has failed' if $name eq 'begun';
    is $answer->{body}, $before, '... and the client has its response' if $name eq 'ended';
    isnt ask('')->{body}, $before, '... and another worker serves';
    ok $server->wait_for_log(qr/(?:the program is \d+.*){@{[@programs + 1]}}/s), '... while the program runs';
    @programs = $server->log =~ /the program is (\d+)/g;
    ok kill(0, $programs[-1]), '... on';
    ok $server->wait_for_log(qr/executed another program \(exec\), which goes on as process $programs[-1]\b/),
        '... as the log tells'
        if $name ne 'ended';
}
is ask('shell')->{status}, 500, 'a command';
ok $server->wait_for_log(qr/the shell has .* is \d+/), '... for a shell';
is ask('inetd')->{body}, 'by itself', 'a program that has been given the connection answers';
like ask('')->{body}, qr/^\d+$/, '... and another worker serves';
is $server->stop, 0, 'the server stops';
my $left = () = $server->log =~ /worker left: the application executed another program/g;
is $left, 7, 'the log tells of each worker that it has left';
unlike $server->log, qr/worker died/, '... and that none has died';

# None of them is the server's any more.
kill KILL => $server->log =~ /the (?:program|shell has \S+ and) is (\d+)/g;

$server = Howdah::Test::Server->launch(app => 'BEGIN { exec $^X, "-e", "sleep 60" } sub { [200, [], []] }');
is $server->wait_for_exit, 1, 'an application that executes another program while it is loaded: no start';
like $server->log, qr/without its control socket, and is killed: it has executed another program \(exec\)/,
    '... and the log tells why';

done_testing;
