# howdah trace: who runs which programs, of one server among others, and who makes processes.
use strict;
use warnings;
use lib 't/lib';

use File::Temp ();
use Howdah::Test::Client;
use Howdah::Test::Command qw(begin_howdah howdah_bin run_command run_howdah);
use Howdah::Test::File qw(read_file write_file);
use Howdah::Test::Operator;
use Howdah::Test::Server;
use JSON::PP qw(decode_json);
use Test::More;

my (undef, undef, $refused) = run_howdah(qw(trace exec --all --seconds 10ms --by connector));
plan skip_all => "the kernel tells nothing: $refused" if $refused =~ /does not tell of processes/;

my $dir    = File::Temp->newdir;
my $script = "$dir/a-script-with-a-long-name.sh";
write_file($script, "#!/bin/sh\n/bin/sleep 0.5\n");
chmod 0755, $script or die $!;
my $operator = Howdah::Test::Operator->new;
my $server   = Howdah::Test::Server->start(
    app     => "sub { system '$script'; [200, [], ['ok']] }",
    options => ['--workers', 1, $operator->options]
);
my $other = Howdah::Test::Server->start(app => 'sub { system "/bin/true"; [200, [], ["ok"]] }');

sub get {
    my ($to, $path) = @_;
    return Howdah::Test::Client->ask($to, "GET $path HTTP/1.1\r\nHost: shop.example\r\n\r\n")->{status};
}

# What it prints while both servers are asked so often, from when it says that it has begun.
sub traced {
    my ($times, @options) = @_;
    open my $stderr, '>&', \*STDERR or die $!;
    open STDERR, '>', "$dir/told" or die $!;
    my $pid = open my $out, '-|', howdah_bin(), 'trace', @options, '--control', $operator->control, '--by', 'connector'
        or die $!;
    open STDERR, '>&', $stderr or die $!;
    $server->wait_until(sub { read_file("$dir/told") =~ /^tracing /m }) or die read_file("$dir/told");
    get($_, '/cart?a=1') for ($server, $other) x $times;
    sleep 1;
    kill INT => $pid;
    my @lines = <$out>;
    return (close($out), @lines);
}

subtest 'programs, by who was it before' => sub {
    my ($ended_well, @lines) = traced(4, qw(exec --seconds 0));
    ok $ended_well, 'Ctrl-C ends it well';
    is shift @lines, "WHO                  WHAT                 COUNT\n";
    my %count = map { /^(.+?) +(\S+) +(\d+)$/ ? ("$1 $2" => $3) : ($_ => '?') } @lines;
    my ($by_worker) = grep { / a-script-with-a-long-name\.sh$/ } keys %count;
    is $count{$by_worker // ''}, 4, "the worker runs scripts ($by_worker)";
    is $count{'a-script-with-a-long-name.sh sleep'}, 4, 'which run programs';
    is keys %count, 2, 'and what the other server does is its own affair';
};

subtest 'each as it comes, with its request' => sub {
    my (undef, @lines) = traced(1, qw(exec --follow));
    my ($line) = grep { /long-name/ } @lines;
    like $line,
        qr{^\d\d:\d\d:\d\d\.\d{3} +\d+ +\d+ howdah: worker +/bin/sh \S+/a-script-with-a-long-name\.sh  \[.*GET /cart\?a=1 };
};

subtest 'as JSON' => sub {
    my (undef, @lines) = traced(3, qw(exec --json));
    my $report = decode_json($lines[-1]);
    my ($row) = grep { $_->{what} eq 'sleep' } @{$report->{counts}};
    is_deeply $row, {who => 'a-script-with-a-long-name.sh', what => 'sleep', count => 3};
    is $report->{lost}, 0;
};

subtest 'processes, by who makes them' => sub {
    my (undef, @lines) = traced(5, qw(fork));
    is shift @lines, "WHO                  COUNT\n";
    is scalar(grep { / 5$/ } @lines), 2, 'the worker and the script';
};

subtest 'what cannot be' => sub {
    for (
        [['trace'], qr/required/],
        [['trace', 'dance'], qr/exec, fork/],
        [[qw(trace exec --all --name x)], qr/cannot be used with/],
        [[qw(trace exec --control), "$dir/none"], qr/\Q$dir\E/],
        )
    {
        my ($arguments, $message) = @$_;
        my ($status, undef, $err) = run_howdah(@$arguments);
        isnt $status, 0, "@$arguments";
        like $err, $message;
    }
};

subtest 'a server that the environment names for all commands does not stand against --all' => sub {
    local @ENV{qw(HOWDAH_NAME HOWDAH_CONTROL)} = ('shop', "$dir/none");
    my ($status, $out, $err) = run_howdah(qw(trace exec --all --seconds 10ms --by connector));
    is $status, 0 or diag $err;
    like $out, qr/^WHO /;
    ($status, undef, $err) = run_howdah(qw(trace exec));
    isnt $status, 0, 'it is that server otherwise';
    like $err, qr/the environment has HOWDAH_CONTROL=/;
};

subtest 'in a namespace of process ids it says that the kernel tells of other numbers' => sub {
    my @unshare = qw(unshare --pid --fork --mount-proc);
    plan skip_all => 'no such namespace can be had here' if system("@unshare true 2>/dev/null") != 0;
    for my $by (qw(best connector bpftrace)) {
        my @by = $by eq 'best' ? () : ('--by', $by);
        my ($status, $out, $err) = run_command(@unshare, howdah_bin(), qw(trace exec --all --seconds 1), @by);
        is "$status$out", 1, $by;
        like $err, qr/^howdah: the kernel does not tell of processes in here: .*\(docker run --pid=host\)$/m;
    }
};

subtest 'a server in a namespace of its own is traced from outside' => sub {
    my @unshare = qw(unshare --pid --fork --mount-proc --kill-child);
    plan skip_all => 'no such namespace can be had here' if system("@unshare true 2>/dev/null") != 0;
    my $inside   = Howdah::Test::Operator->new;
    my @howdah   = (howdah_bin(), '--listen', '127.0.0.1:0', '--workers', 1, $inside->options);
    my $enclosed = Howdah::Test::Server->start(
        app     => "sub { system '$script'; [200, [], ['ok']] }",
        command => [@unshare, @howdah]
    );
    my @told = ('--control', $inside->control);
    my $end  = begin_howdah(qw(trace exec --by connector --seconds 3), @told);
    sleep 1;
    get($_, '/') for $enclosed, $server;
    my ($status, $out, $err) = $end->();
    is $status, 0;
    like $out, qr/ a-script-with-a-long-name\.sh +1$/m, 'its processes count, and no others';
    my ($number) = $err =~ /the server with pid (\d+) by/;
    cmp_ok $number, '>', 1, 'under the numbers that they have here';
    my ($looked, $seen) = run_howdah('where', @told);
    is $looked, 0;
    like $seen, qr/^worker 0, process \d+, .*: no request$/m, 'and they can be looked into';
};

subtest 'also after an upgrade there' => sub {
    my @unshare = qw(unshare --pid --fork --mount-proc --kill-child);
    plan skip_all => 'no such namespace can be had here' if system("@unshare true 2>/dev/null") != 0;
    my $inside = Howdah::Test::Operator->new;

    # Process 1 is not Howdah, with which the namespace would end.
    my @first  = ('sh', '-c', '"$@"; exec sleep 60', 'sh');
    my @howdah = (howdah_bin(), '--listen', '127.0.0.1:0', '--workers', 1, $inside->options);
    my $server = Howdah::Test::Server->start(app => 'sub { [200, [], []] }', command => [@unshare, @first, @howdah]);
    is + ($inside->ask('upgrade'))[0], 0, 'another process serves';
    ok $server->wait_until(sub { $server->log =~ /process \d+ serves, process \d+ finishes/ });
    my ($status, $seen, $err) = run_howdah('where', '--control', $inside->control);
    is $status, 0 or diag $err;
    my ($number) = $seen =~ /^worker 0, process (\d+), .*: no request$/m;
    like read_file("/proc/$number/status"), qr/^NSpid:\s+$number\s+\d+$/m, 'the number is that of here';
};

subtest 'it follows an upgrade, and ends with its server' => sub {
    open my $messages, '+>', undef or die $!;
    my $pid = open my $out, '-|' // die $!;
    if (!$pid) {
        open STDERR, '>&', $messages or POSIX::_exit(1);
        exec howdah_bin(), qw(trace exec --seconds 50 --by connector --control), $operator->control or POSIX::_exit(1);
    }
    sleep 1;
    is + ($operator->ask('upgrade'))[0], 0, 'there is another process';
    sleep 3;
    get($server, '/');
    my $begun = time;
    is + ($operator->ask('stop'))[0], 0, 'which ends';
    my @lines = <$out>;
    ok close $out, 'so does the trace';
    cmp_ok time - $begun, '<', 30, 'by itself';
    is scalar(grep { / a-script-with-a-long-name\.sh +1$/ } @lines), 1, 'with what the new process did'
        or diag @lines;
    seek $messages, 0, 0;
    like join('', <$messages>), qr/^the server has ended$/m;
};

# It takes a kernel that allows it; what is said to us by whoever has that name may be said by another.
subtest 'bpftrace that ends before its time, and has lost events' => sub {
    mkdir "$dir/bin" or die $!;
    write_file("$dir/bin/bpftrace", <<'SH');
#!/bin/sh
echo 'Attaching 9 probes...'
echo ready
printf 'exec 5 7 httpd\t/srv/index.cgi\n'
yes 'more than a pipe holds, of what is no event' | head -n 5000 >&2
echo 'Lost 12 events' >&2
printf 'exec 6 8 httpd\t/srv/index.cgi\n'
SH
    chmod 0755, "$dir/bin/bpftrace" or die $!;
    local $ENV{PATH} = "$dir/bin:$ENV{PATH}";
    my ($status, $out, $err) = run_howdah(qw(trace exec --all --seconds 50 --by bpftrace));
    is $status, 1, 'it fails';
    like $err, qr/^howdah: bpftrace: it ended; what it has told until then is all that is counted$/m,
        '... and tells why';
    like $out, qr/^httpd +index\.cgi +2$/m, '... and what was counted';
    like $err, qr/^the kernel has lost events 1 times/m, '... and that the kernel has lost some';
};

subtest 'what bpftrace has not printed yet when the time is over counts' => sub {

    # A shell could not hear of INT where whoever started all this ignores it; bpftrace can, as perl.
    write_file("$dir/bin/bpftrace", <<'PERL');
#!/usr/bin/perl
$| = 1;
print("bpftrace v0.23.2\n"), exit if $ARGV[0] eq '--version';
$SIG{INT} = sub { print "exec 6 8 httpd\t/srv/held.cgi\n"; exit };
print "ready\n";
sleep 1 while 1;
PERL
    my ($status, $out, $err) = do {
        local $ENV{PATH} = "$dir/bin:$ENV{PATH}";
        run_howdah(qw(trace exec --all --seconds 1 --by bpftrace));
    };
    is $status, 0 or diag $err;
    like $out, qr/^httpd +held\.cgi +1$/m;
};

undef $_ for $server, $other;
done_testing;
