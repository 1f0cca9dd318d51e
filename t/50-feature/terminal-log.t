# The error log on a terminal is for people: who says something stands dimmed before its first line alone, and the
# lines of a stack trace are indented. Everywhere else each line is whole. The terminal is the front's alone: who asks there
# for something in a worker would be stopped, and all workers with him.
use strict;
use warnings;
use lib 't/lib';

use Fcntl qw(O_NOCTTY O_NONBLOCK O_RDWR);
use File::Temp ();
use Howdah::Test::Client;
use Howdah::Test::Command qw(howdah_bin);
use Howdah::Test::File qw(write_file);
use Howdah::Test::Server;
use POSIX ();
use Test::More;
use Time::HiRes qw(sleep time);

# A terminal of our own: ioctl_tty(2). The numbers are those of most architectures.
use constant {TIOCGPTN => 0x80045430, TIOCSPTLCK => 0x40045431};
sysopen my $master, '/dev/ptmx', O_RDWR | O_NOCTTY | O_NONBLOCK or plan skip_all => "no pseudo terminals: $!";
my $number = pack 'I', 0;
my $unlock = pack 'i', 0;
ioctl $master, TIOCSPTLCK, $unlock and ioctl $master, TIOCGPTN, $number
    or plan skip_all => "no pseudo terminal: $!";
my $terminal = '/dev/pts/' . unpack 'I', $number;

my $app = <<'PSGI';
use Carp ();
sub inner { Carp::confess('no total') }
sub outer { inner(@_) }
sub {
    my ($env) = @_;
    outer(1) if $env->{PATH_INFO} eq '/dies';
    print STDERR "\e[31mprinted\n" if $env->{PATH_INFO} eq '/prints';
    print STDERR map({ "line $_\n" } 1 .. 200) if $env->{PATH_INFO} eq '/many';
    return [200, [], [$env->{PATH_INFO}]];
};
PSGI

my $shown = '';

# A line can be read before its end: the terminal takes what stands before a line feed, and then the line feed.
sub shown {
    my ($pattern) = @_;
    my $end = time + 20;
    while (time < $end && $shown !~ /$pattern.*\n/) {
        sysread $master, $shown, 65_536, length $shown or sleep 0.02;
    }
    return $shown =~ s/\r\n/\n/gr;
}

sub on_terminal {
    my ($env, @options) = @_;
    $shown = '';
    my $server = Howdah::Test::Server->launch(
        app     => $app,
        env     => {TERM => 'xterm', NO_COLOR => undef, %$env},
        command => ['/bin/sh', '-c', 'exec "$@" 2>"$0"', $terminal, howdah_bin()],
        options => [qw(--listen 127.0.0.1:0 --workers 1), @options]
    );
    shown(qr/stop with/) =~ /on http\S+:(\d+) with/ or die "no port in what was shown: $shown";
    return ($server, $1);
}

sub ask { return Howdah::Test::Client->ask($_[0], "GET $_[1] HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n") }

subtest 'a stack trace' => sub {
    my ($server, $port) = on_terminal({});
    is ask($port, '/dies')->{status}, 500;
    my $text = shown(qr/outer\(1\) called at /);
    my ($trace) = $text =~ /(.*no total.*(?:\n    .*)+)/;
    like $trace,
        qr{^\e\[2m\d\d:\d\d:\d\d ERROR worker 0 pid \d+ GET /dies:\e\[22m the application failed: no total at },
        'prefix';
    cmp_ok index($trace, ' the app'), '<', 70, '... which is short';
    like $trace, qr/\n    \t\S*inner\(1\) called at .*\n    \t\S*outer\(1\) called at /, 'indented lines';
    is scalar(() = $trace =~ /ERROR/g), 1, 'one prefix';

    ask($port, '/prints');
    like shown(qr/printed/), qr{INFO  worker 0 pid \d+ GET /prints:\e\[22m \\x1b\[31mprinted\n},
        'nothing of a client reaches it';
    $server->signal('INT');
    like shown(qr/stopping/), qr/INFO  front:\e\[22m stopping at once\n/;
    is $server->wait_for_exit, 0;
};

subtest 'NO_COLOR, a dumb terminal, JSON' => sub {
    for my $case ([{NO_COLOR => 1}], [{TERM => 'dumb'}]) {
        my ($server, $port) = on_terminal($case->[0]);
        ask($port, '/prints');
        like shown(qr/printed/), qr{\n\d\d:\d\d:\d\d INFO  worker 0 pid \d+ GET /prints: \\x1b\[31mprinted\n},
            join ' ', %{$case->[0]};
        is $server->stop, 0;
    }
    my ($server, $port) = on_terminal({}, '--error-log-format', 'json');
    ask($port, '/prints');
    like shown(qr/printed/), qr/\n\{"time":.*"source":"worker".*printed.*\}\n/;
    is $server->stop, 0;
};

# POSIX leaves the days of summer time to the system, where TZ does not name them.
subtest 'the time is that of the application, also by a TZ without days' => sub {
    local $ENV{TZ} = 'AAA-7BBB';
    my ($server, $port) = on_terminal({TZ => $ENV{TZ}});
    ask($port, '/prints');
    my ($hour, $minute) = shown(qr/printed/) =~ /(\d\d):(\d\d):\d\d INFO  worker 0/;
    POSIX::tzset();
    my (undef, $now_minute, $now_hour) = localtime;
    my $passed = ($now_hour * 60 + $now_minute - $hour * 60 - $minute) % (24 * 60);
    cmp_ok $passed, '<', 10, "$hour:$minute is now";
    is $server->stop, 0;
};

subtest 'how to stop it is told for who is there' => sub {
    my ($server) = on_terminal({});
    like shown(qr/stop with/), qr/stop with Ctrl-C, /, 'somebody at a terminal';
    is $server->stop, 0;
    my $alone = Howdah::Test::Server->start(
        app     => $app,
        command => ['/bin/sh', '-c', 'exec "$0" "$@" </dev/null', howdah_bin(), '--listen', '127.0.0.1:0']
    );
    like $alone->log, qr/stop with kill \d+, /, 'a service manager';
    is $alone->stop, 0;
};

subtest 'a terminal that is stopped (Ctrl-S) stops nobody' => sub {
    my ($server, $port) = on_terminal({});
    my $start = time;
    is scalar(grep { ask($port, '/many')->{status} != 200 } 1 .. 20), 0 for 1 .. 5;
    cmp_ok time - $start, '<', 25;
    $start = time;
    is $server->stop, 0;
    cmp_ok time - $start, '<', 5;
};

subtest 'no application and no script has a terminal to ask at' => sub {
    my $dir    = File::Temp->newdir;
    my $script = write_file(
        "$dir/asks",
        "#!/bin/sh\necho Content-Type: text/plain\necho\n(: </dev/tty) 2>/dev/null && echo one || echo none\n"
    );
    chmod 0755, $script;
    my $asks      = 'sub { [200, [], [open(my $terminal, "<", "/dev/tty") ? "one" : "none"]] }';
    my $leader    = 'POSIX::setsid(); open STDERR, "+<", shift or die; exec @ARGV';
    my ($plackup) = grep { -x } map { "$_/plackup" } split /:/, $ENV{PATH};
    my @cases     = (
        ['howdah', [howdah_bin()], ['--cgi', "/cgi=$dir,mode=exec"], '/', '/cgi/asks'],
        ['plackup', [$^X, $plackup, qw(-s Howdah -E test)], [], '/'],
    );
    for (@cases) {
        my ($what, $command, $options, @paths) = @$_;
        $shown = '';
        my $server = Howdah::Test::Server->launch(
            app     => $asks,
            command => [$^X, '-MPOSIX', '-e', $leader, $terminal, @$command],
            options => ['--listen', '127.0.0.1:0', '--workers', 1, @$options],
        );
        my ($port) = shown(qr/stop with/) =~ /on http\S+:(\d+) with/ or die "no port in what was shown: $shown";
        is ask($port, $_)->{body} =~ s/\n//r, 'none', "$what $_" for @paths;
        is $server->stop, 0;
    }
};

done_testing;
