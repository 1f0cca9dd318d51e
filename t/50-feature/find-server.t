# `howdah status` without a name shows all servers of the machine; by --name a server is found whoever runs it, wherever
# its control socket is: root's, another user's, that of the systemd units, one of --control.
use strict;
use warnings;
use lib 't/lib';

use File::Temp qw(tempdir);
use Howdah::Test::Command qw(howdah_bin run_command run_howdah);
use Howdah::Test::Operator;
use Howdah::Test::Server;
use IO::Socket::UNIX;
use JSON::PP ();
use Test::More;

my $tag = "find-$$";
my $app = 'sub { [200, [], ["ok"]] }';
my ($uid, $nobody) = (300_000 + $$ % 100_000, $> == 0);
my @as_user = ('setpriv', "--reuid=$uid", "--regid=$uid", '--clear-groups');
$nobody &&= !(run_command(@as_user, howdah_bin(), '--version'))[0];

# The line of a server in the table of all.
sub line {
    my $name = shift;
    return (grep { /^\Q$name\E / } split /\n/, (run_howdah('status'))[1])[0] // '';
}

sub start {
    my ($options, @as) = @_;
    my @command = (@as, howdah_bin(), '--listen', '127.0.0.1:0', '--workers', 1, @$options, '-e', $app);
    return Howdah::Test::Server->start(command => \@command, env => {HOWDAH_CONTROL => undef});
}

# What lies around on the machine must not fill in.
my $other = start(['--name', "$tag-other"]);

subtest 'a control socket anywhere is in the list, and found by name' => sub {
    my $operator = Howdah::Test::Operator->new;
    my $server   = start([$operator->options, '--name', "$tag-far"]);
    my $pid      = $server->pid;
    like line("$tag-far"), qr/ $pid .* 1 +0 +the code of -e +http:\S+ +\Q${\$operator->control}\E$/;
    my ($status, $out, $err) = run_howdah('status', '--name', "$tag-far");
    is $status, 0 or diag $err;
    like $out, qr/^\Q$tag\E-far serves the code of -e/;
    my @known = map { JSON::PP::decode_json($_)->{server}{instance} } split /\n/, (run_howdah('status', '--json'))[1];
    is_deeply [grep { /^\Q$tag-/ } @known], ["$tag-far", "$tag-other"], 'a line of JSON for each';
    is + ($operator->ask('upgrade'))[0], 0;
    like line("$tag-far"), qr/ ${\$operator->pid} /, 'after an upgrade, too';
    is + (run_howdah('stop', '--name', "$tag-far"))[0], 0, 'stopped by name';
    is line("$tag-far"), '', 'then it is in the list no more';
};

SKIP: {
    skip 'only root can become somebody else', 2 if !$nobody;

    subtest 'root finds the server of another user' => sub {
        local $ENV{XDG_RUNTIME_DIR};
        delete $ENV{XDG_RUNTIME_DIR};
        my $server = start(['--name', "$tag-user"], @as_user);
        my $path   = "/tmp/howdah-$uid/$tag-user.sock";
        ok -S $path, $path;
        like line("$tag-user"), qr/^\S+ +$uid .*\Q$path\E$/;
        my ($status, $out, $err) = run_howdah('status', '--name', "$tag-user");
        is $status, 0 or diag $err;
        like $out, qr/^\Q$tag\E-user serves/;
        like + (run_howdah('workers', '+1', '--name', "$tag-user"))[1], qr/^2 workers/, 'and may do all to it';
        my ($mine) = grep { /^\Q$tag-other\E/ } split /\n/, (run_command(@as_user, howdah_bin(), 'status'))[1];
        unlike $mine // '', qr/http:/, 'which does not hold the other way round';
        $server->stop;
        rmdir "/tmp/howdah-$uid";
    };

    subtest "the systemd unit's socket is found by --name" => sub {
        my $dir = "/run/howdah-$tag-unit";
        mkdir $dir or die "$dir: $!";
        chown $uid, $uid, $dir or die $!;
        my $server = start(['--name', "$tag-unit", '--control', "$dir/control.sock"], @as_user);
        my ($status, $out, $err) = run_howdah('status', '--name', "$tag-unit");
        is $status, 0 or diag $err;
        like $out, qr/^\Q$tag\E-unit serves/;
        $server->signal('STOP');
        like line("$tag-unit"), qr/\(does not answer\)/, 'one that hangs is listed by its path, within bounds';
        $server->signal('CONT');
        is $server->stop, 0;
        rmdir $dir;
    };
}

subtest 'what another program says in the place of a server is no command to the terminal' => sub {
    my $dir    = tempdir(CLEANUP => 1);
    my $path   = "$dir/control.howdah-1";
    my $listen = IO::Socket::UNIX->new(Local => $path, Listen => 8) or die $!;
    rename $path, "$dir/control" or die $!;
    my $status = JSON::PP::decode_json((run_howdah('status', '--json', '--name', "$tag-other"))[1]);
    $status->{server}{instance} = "$tag-\e[2Jevil\nroot";
    defined(my $pid = fork) or die $!;
    if (!$pid) {
        alarm 30;
        while (my $client = $listen->accept) {
            readline $client;    # to close with a question unread would be a reset
            print {$client} JSON::PP::encode_json({status => $status}), "\n";
        }
        exit 0;
    }
    my $out = (run_howdah('status'))[1];
    kill KILL => $pid;
    waitpid $pid, 0;
    like $out, qr/^\Q$tag-\E\\x1b\[2Jevil/m, 'it is shown';
    unlike $out, qr/\e/, 'but not obeyed';
};

subtest 'two of one name: neither is taken for the other' => sub {
    my @operators = map { Howdah::Test::Operator->new } 1 .. 2;
    my @servers   = map { start([$_->options, '--name', "$tag-twin"]) } @operators;
    my ($status, undef, $err) = run_howdah('stop', '--name', "$tag-twin");
    is $status, 1;
    like $err, qr/several servers are called \Q$tag\E-twin: .*--control \S+ or --control /;
    is_deeply [map { $_->is_running } @servers], [1, 1];
};

subtest 'a name that nobody has' => sub {
    my ($status, undef, $err) = run_howdah('status', '--name', "$tag-none");
    is $status, 1;
    like $err, qr/no server answers at .*\Q$tag\E-none\.sock: .*--name.*--control.*howdah status lists/;
};

done_testing;
