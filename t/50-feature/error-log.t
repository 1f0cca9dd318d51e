# The error log: every line says when, how grave, which process and which request; nobody can forge one, and nothing
# that was written is lost, whatever becomes of the writer.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Command qw(howdah_bin run_howdah);
use Howdah::Test::Operator;
use Howdah::Test::Server;
use JSON::PP qw(decode_json);
use Test::More;

my $APP = <<'PSGI';
use POSIX ();
use feature 'say';
warn "loading\n";
my %do = (
    warn    => sub { warn "warned\n" },
    print   => sub { print {*STDERR} "print\n"; printf {*STDERR} "%s\n", 'printf'; say {*STDERR} 'say' },
    perl    => sub { use warnings; my $none; my $text = "a$none" },
    carp    => sub { require Carp; Carp::cluck('clucked') },
    errors  => sub { $_[0]{'psgi.errors'}->print("one\n\ttwo\nthree\n") },
    pieces  => sub { print {$_[0]{'psgi.errors'}} 'a', 'b'; print {*STDERR} "c\n" },
    endless => sub { print {*STDERR} 'no end' },
    die     => sub { die "on purpose\n" },
    forge   => sub { my $text = "ok\r\e[2K2026-01-01T00:00:00.000Z ERROR front: forged\0\n"; print {*STDERR} $text },
    bidi    => sub { print {*STDERR} "\xe2\x80\xae caf\xc3\xa9 \xff\n" },
    raw     => sub { POSIX::write(2, "from C\n", 7) },
    program => sub { system 'echo from a program >&2' },
    child   => sub { my $pid = fork // die; if (!$pid) { warn "in a child\n"; POSIX::_exit(0) } waitpid $pid, 0 },
    long    => sub { warn 'x' x 20_000, "\n" },
    many    => sub { warn "line $_\n" for 1 .. 5000 },
    kill    => sub { warn "last words\n"; kill KILL => $$ },
    segv    => sub { warn "before the fault\n"; kill SEGV => $$ },
    partial => sub { print {*STDERR} 'no end of last words'; kill KILL => $$ },
    chat    => sub {
        for (1 .. 1500) {
            warn "chatting\n";
            last if -e $_[0]{QUERY_STRING};
            select undef, undef, undef, 0.02;
        }
    },
    other   => sub { open STDERR, '>>', $_[0]{QUERY_STRING} or die; warn "elsewhere\n" },
    cleanup => sub { push @{$_[0]{'psgix.cleanup.handlers'}}, sub { warn "cleaning\n" } },
);
sub {
    my $env = shift;
    $do{substr $env->{PATH_INFO}, 1}->($env);
    return [200, [], [$$]];
};
PSGI

my $TIME = qr/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/;

sub ask {
    my ($server, $target, @headers) = @_;
    my $lines = join "\r\n", "GET $target HTTP/1.1", 'Host: x', @headers, 'Connection: close', '', '';
    return Howdah::Test::Client->ask($server, $lines);
}

# The lines with that word in them, once there is one.
sub logged {
    my ($server, $word) = @_;
    my @lines;
    $server->wait_until(
        sub {
            @lines = grep { $_ =~ $word } split /\n/, $server->log;
        },
        5
    );
    return @lines;
}

my $server = Howdah::Test::Server->start(app => $APP, options => ['--workers', 1]);
my ($pid)  = $server->workers;
my $from   = qr/^$TIME WARN  worker 0 pid $pid request/;
my $prints = qr/^$TIME INFO  worker 0 pid $pid request/;

like((logged($server, qr/loading/))[0], qr/^$TIME WARN  zygote pid \d+: loading$/, 'the zygote');
like((logged($server, qr/all workers/))[0], qr/^$TIME INFO  front: all workers are ready workers=1$/, 'the front');

subtest 'what belongs to a request names it' => sub {
    ask($server, '/warn?a=b', 'X-Request-Id: order-66');
    is_deeply [logged($server, qr/warned/)],
        [grep { /$from order-66 GET \/warn\?a=b: warned$/ } logged($server, qr/warned/)];
    is scalar(logged($server, qr/warned/)), 1, 'once';
    ask($server, '/errors');
    ok logged($server, qr/three/);
    is scalar(logged($server, qr{$prints \S+ GET /errors: (?:one|\ttwo|three)$})), 3, 'every line of a message';
    ask($server, '/pieces');
    like((logged($server, qr{/pieces}))[0], qr{$prints \S+ GET /pieces: abc$}, 'a line that comes in pieces');
    ask($server, '/endless');
    like((logged($server, qr/no end/))[0], qr{$prints \S+ GET /endless: no end$}, 'one that never ends');
    is ask($server, '/die')->{status}, 500;
    like(
        (logged($server, qr/on purpose/))[0],
        qr{^$TIME ERROR worker 0 pid $pid request \S+ GET /die: the application failed: on purpose$},
        'a failure is an error'
    );
    ask($server, '/cleanup');
    like((logged($server, qr/cleaning/))[0], qr{$from \S+ GET /cleanup: cleaning$}, 'what a cleanup handler says');
};

subtest 'what is printed is news, what is warned is a warning' => sub {
    ask($server, '/print');
    for my $word (qw(print printf say)) {
        like((logged($server, qr/: $word$/))[0], qr{$prints \S+ GET /print: $word$}, $word);
    }
    ask($server, '/perl');
    like((logged($server, qr/uninitialized/))[0], qr{$from \S+ GET /perl: Use of uninitialized}, 'of perl itself');
    ask($server, '/carp');
    like((logged($server, qr/clucked/))[0], qr{$from \S+ GET /carp: clucked at}, 'of a library');
};

subtest 'nobody forges a line' => sub {
    ask($server, '/forge');
    my @lines = logged($server, qr/forged/);
    is scalar @lines, 1;
    like $lines[0], qr{$prints \S+ GET /forge: ok\\x0d\\x1b\[2K2026\S+ ERROR front: forged\\x00$}, 'control characters';
    ask($server, '/bidi');
    like((logged($server, qr/caf/))[0], qr{: \\u\{202e\} caf\xc3\xa9 \\xff$}, 'characters that mislead');
};

subtest 'others who write to standard error' => sub {
    ask($server, '/raw');
    like((logged($server, qr/from C/))[0], qr{^$TIME INFO  stderr: from C$}, 'a library');
    ask($server, '/program');
    like((logged($server, qr/from a program/))[0], qr{^$TIME INFO  stderr: from a program$}, 'a program');
    ask($server, '/child');
    my ($line) = logged($server, qr/in a child/);
    like $line, qr{^$TIME WARN  worker 0 pid \d+: in a child$}, 'a child of the application';
    unlike $line, qr/pid $pid:/, '... with its own process id';
};

subtest 'nothing is lost' => sub {
    ask($server, '/long');
    like((logged($server, qr/xxxx/))[0], qr/: x{20000}$/, 'a long line');
    ask($server, '/many');
    ok logged($server, qr/line 5000$/);
    is scalar(logged($server, qr{: line \d+$})), 5000, 'many lines';
    for my $case ([kill => 'last words'], [segv => 'before the fault']) {
        ask($server, "/$case->[0]");
        is scalar(logged($server, qr/: $case->[1]$/)), 1, "$case->[0] takes nothing with it";
    }
};

# As ssh does, whose standard error is the one of all workers. The front reads nothing until somebody wakes it.
subtest 'a program that makes standard error non-blocking costs no line' => sub {
    my $server = Howdah::Test::Server->start(app => <<'PSGI', options => ['--workers', 1]);
use Fcntl qw(F_GETFL F_SETFL O_NONBLOCK);
use POSIX ();
sub {
    my $front = $_[0]{QUERY_STRING};
    system $^X, '-MFcntl', '-e', 'fcntl STDERR, F_SETFL, O_NONBLOCK | fcntl STDERR, F_GETFL, 0 or die $!';
    my $is_changed = O_NONBLOCK & fcntl STDERR, F_GETFL, 0;
    kill STOP => $front;
    my $waker = fork // die "fork: $!";
    if (!$waker) {
        select undef, undef, undef, 0.5;
        kill CONT => $front;
        POSIX::_exit(0);
    }
    my $failed = grep { !print {*STDERR} 'line ', 'x' x 1000, " $_\n" } 1 .. 1000;
    waitpid $waker, 0;
    return [200, [], [$is_changed ? "$failed failed" : 'blocking']];
};
PSGI
    is ask($server, '/?' . $server->pid)->{body}, '0 failed', 'none fails';
    ok logged($server, qr/x 1000$/), 'the last one is there';
    is scalar(logged($server, qr/INFO .*: line x{1000} \d+$/)), 1000, 'and all others';
};

# What perl pushes there has a buffer, which standard error itself has not.
subtest 'a layer on standard error keeps no line back' => sub {
    my $server = Howdah::Test::Server->start(app => <<'PSGI', options => ['--workers', 1]);
use open qw(:std :encoding(UTF-8));
sub {
    my $path = $_[0]{PATH_INFO};
    if ($path =~ /late/) { binmode STDERR; binmode STDERR, ':encoding(UTF-8)' }
    print {*STDERR} "asked $path caf\x{e9}\n";
    $_[0]{'psgi.errors'}->print("errors $path\n");
    kill KILL => $$ if $path =~ /killed/;
    return [200, [], []];
};
PSGI
    for my $path (qw(/first /killed /late /late/killed /last)) {
        ask($server, $path);
        is scalar(logged($server, qr{INFO .* GET $path: asked $path caf\xc3\xa9$})), 1, $path;
        is scalar(logged($server, qr{ GET $path: errors $path$})), 1, "$path, also by psgi.errors";
    }
};

subtest 'a line without an end does not wait until all others are silent' => sub {
    my $server = Howdah::Test::Server->start(app => $APP, options => ['--workers', 2]);
    my $quiet  = $server->dir . '/quiet';
    my $chat   = Howdah::Test::Client->new($server);
    $chat->write("GET /chat?$quiet HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    ok $server->wait_for_log(qr/chatting/), 'one worker has much to say';
    ask($server, '/partial');
    ok $server->wait_for_log(qr{GET /partial: no end of last words$}m, 15), 'the last words of another are there';
    open my $out, '>', $quiet or die "$quiet: $!";
    close $out or die $!;
    is $chat->response->{status}, 200;
};

subtest 'an application that puts its standard error elsewhere has it there, as it is' => sub {
    my $file = $server->dir . '/elsewhere';
    ask($server, "/other?$file");
    open my $in, '<', $file or die "$file: $!";
    is join('', <$in>), "elsewhere\n";
};

subtest 'JSON: every line is an object' => sub {
    my $log    = $server->dir . '/json.log';
    my $server = Howdah::Test::Server->launch(
        app     => $APP,
        options => ['--workers', 1, '--error-log', $log, qw(--error-log-format json --log-level info)]
    );
    my $read = sub {
        open my $in, '<', $log or return ();
        my @lines = <$in>;
        return map { decode_json($_) } @lines;
    };
    $server->wait_until(sub {
        grep { $_->{message} =~ /^serving / } $read->();
    });
    my ($port) = map { $_->{message} =~ /^serving .*:(\d+) with/ } $read->();
    ask($port, '/errors?"\\', 'X-Request-Id: j1');
    ask($port, '/raw');
    ask($port, '/die');
    is $server->stop, 0;
    my @lines = $read->();
    my ($line) = grep { $_->{message} eq "\ttwo" } @lines;
    like delete $line->{time}, qr/^$TIME$/;
    cmp_ok delete $line->{pid}, '>', 1;
    is_deeply $line,
        {
        level => 'info', source => 'worker', worker => 0, request_id => 'j1', method => 'GET', target => '/errors?"\\',
        message => "\ttwo"
        };
    ok((grep { $_->{message} eq 'from C' && $_->{source} eq 'stderr' } @lines), 'also what comes from elsewhere');
    ok((grep { $_->{message} =~ /on purpose/ && $_->{level} eq 'error' } @lines), 'and failures');
    my ($ready) = grep { $_->{message} eq 'all workers are ready' } @lines;
    is_deeply $ready->{fields}, {workers => '1'}, 'fields of the server';
};

subtest "in systemd's journal each line bears its priority, which the journal takes for itself" => sub {
    for my $format (qw(text json)) {
        my @howdah   = (howdah_bin(), qw(--listen 127.0.0.1:0 --workers 1 --error-log-format), $format);
        my $named    = 'JOURNAL_STREAM=$(stat -L -c %d:%i /proc/self/fd/2) exec "$@"';
        my $reported = Howdah::Test::Server->start(app => $APP, command => ['sh', '-c', $named, 'sh', @howdah]);
        ask($reported, $_) for qw(/die /forge /errors);
        like((logged($reported, qr/on purpose/))[0], qr/^<3>(\{|$TIME ERROR )/, "$format: an error");
        like((logged($reported, qr/loading$|"loading"/))[0], qr/^<4>(\{|$TIME WARN )/, 'a warning');
        like $_, qr/^<6>(\{|$TIME INFO )/, 'news, each line'
            for (logged($reported, qr/three/), logged($reported, qr/two/));
        is_deeply [grep { !/^<[346]>/ } split /\n/, $reported->log], [], 'and there are no others';
    }
    my $elsewhere =
        Howdah::Test::Server->start(app => $APP, env => {JOURNAL_STREAM => '1:1'}, options => ['--workers', 1]);
    like((logged($elsewhere, qr/loading$/))[0], qr/^$TIME WARN /, 'but not where the log goes elsewhere');
};

subtest 'a full disk, of which this log cannot tell, is told where the server is looked at' => sub {
    plan skip_all => 'no /dev/full' if !-c '/dev/full';
    my $operator = Howdah::Test::Operator->new;
    my $server   = Howdah::Test::Server->launch(
        app     => 'sub { [200, [], []] }',
        options => [qw(--workers 1 --error-log /dev/full), $operator->options]
    );
    my $said;
    ok $server->wait_until(sub { ($said = ($operator->ask('status'))[1]) =~ /^trouble/m }), 'howdah status';
    like $said, qr{^trouble     error log /dev/full: No space left[^;]*; lines wait in memory$}m;
    like $operator->status->{error_log}{trouble}, qr/No space left/, 'its JSON';
};

subtest '--log-level' => sub {
    my $server = Howdah::Test::Server->launch(app => $APP, options => [qw(--workers 1 --log-level error)]);
    $server->wait_for_log(qr/serving/);
    unlike $server->log, qr/INFO/, 'error leaves out what is not';
    like $server->log, qr/: loading$/m, 'but nothing of the application';
    my ($status, undef, $message) = run_howdah(qw(--log-level loud -e), 'sub {}');
    is $status, 2;
    like $message, qr/'loud' for '--log-level <LEVEL>'.*error, warn, info, debug/s;
};

done_testing;
