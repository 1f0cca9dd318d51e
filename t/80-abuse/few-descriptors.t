# A server that is started with nearly as many descriptors open as there may be, one more each time: wherever its start ends for
# want of one, it says what is to be raised, and nothing in it breaks.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Command qw(howdah_bin run_command);
use Howdah::Test::Server;
use Test::More;

use constant LIMIT => 34;

# What the server inherits is not closed by exec.
sub start {
    my $count = shift;
    local $^F = LIMIT;
    my @open = map { open my $one, '<', '/dev/null' or die $!; $one } 1 .. $count;
    return Howdah::Test::Server->launch(
        app     => 'sub { [200, [], ["x"]] }',
        command => ['sh', '-c', 'ulimit -n ' . LIMIT . '; exec "$@"', 'sh', howdah_bin(), '--listen', '127.0.0.1:0'],
        options => ['--workers', 1],
    );
}

for my $count (4 .. LIMIT - 6) {
    my $server = start($count);
    my $status = $server->wait_for_exit;
    my $log    = $server->log;
    is $status, 1, "$count more are open";
    like $log, qr/^howdah: \w.*\S: Too many open files.*; .*ulimit -n/m,
        '... it says what it cannot do, and what to raise';
    unlike $log, qr/panicked|fault of howdah/, '... and no more';
}

# The last thing that a start takes a descriptor for is to hear of clients.
subtest 'a listener of whose clients the server cannot hear' => sub {
    my $dir     = File::Temp->newdir;
    my @command = (howdah_bin(), map { ('--listen', "$dir/$_") } 'a' .. 'h');
    my $limited = sub { ('sh', '-c', "ulimit -n $_[0]; exec \"\$@\"", 'sh', @command) };
    my @app     = ('-e', 'sub { [200, [], ["x"]] }', '--workers', 3);
    my (undef, undef, $refused) = run_command($limited->(20), @app);
    my ($least) = $refused =~ /a start takes more than (\d+)/ or die $refused;
    my ($server, $path);

    # One of them is the last.
    for my $limit (reverse $least .. $least + 8) {
        $server = Howdah::Test::Server->launch(
            app     => 'sub { [200, [], ["x"]] }',
            command => [$limited->($limit)],
            options => ['--workers', 3]
        );
        $server->wait_until(sub { $server->log =~ /^howdah: (?:cannot|try )/m });
        sleep 0.2;
        ($path) = $server->log =~ /cannot watch unix:(\S+), which is tried again.*Too many open files.*ulimit -n/
            and last;
    }
    ok $path, 'is named, and what to raise' or return diag $server->log;
    like $server->log, qr/limit of open files is \d+, and \d+ are needed before the first client comes.*ulimit -n/,
        'nobody is told that there is room for clients';
    unlike $server->log, qr/that is enough for/, '... nor for how many';
    my $client = Howdah::Test::Client->asking($path, '/');
    kill TTOU => $server->pid for 1, 2;
    is $client->response->{status}, 200, 'its clients are let in when another descriptor is free';
};

# Each of these limits is too low for something else, which is found out at another time.
subtest 'the limit that is advised is the same each time, and enough' => sub {
    my $app    = 'sub { [200, [], ["x"]] }';
    my @listen = ('--listen', '127.0.0.3:0');
    for my $options (
        ['--workers', 1],
        ['--workers', 4, '--front-threads', 2],
        ['--workers', 2, '--max-connections', 200],
        ['--workers', 1, '--mount', '/a=t/apps/echo.psgi', '--status-listen', '127.0.0.2:0', '--listen', 'localhost:0'],
        )
    {
        my $limited = sub { ('sh', '-c', "ulimit -n $_[0]; exec \"\$@\"", 'sh', howdah_bin()) };
        my (undef, undef, $refused) = run_command($limited->(20), 'check', @listen, @$options, '-e', $app);
        my ($least, $enough) = $refused =~ /a start takes more than (\d+), .*: raise it to (\d+) or more /
            or die $refused;
        for my $limit ($least + 2, $least + 12, $least + 25, $enough) {
            my $server = Howdah::Test::Server->launch(
                app     => $app,
                command => [$limited->($limit), @listen],
                options => $options,
            );
            $server->wait_for_log(qr/^howdah: |serving .* on /m);
            my @advised = $server->log =~ /the limit of open files.* raise it to (\d+) or more/g;
            is_deeply [grep { $_ != $enough } @advised], [], "@$options: at $limit no other";
            unlike $server->log, qr/ulimit -n/, "... and $enough is" if $limit == $enough;
            $server->stop('INT');
        }
    }
};

done_testing;
