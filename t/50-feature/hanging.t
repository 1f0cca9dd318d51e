# What hangs is given up after its time: a new process at an upgrade, a worker that has not come so far as to be ready.
use strict;
use warnings;
use lib 't/lib';

use File::Spec ();
use Howdah::Test::Client;
use Howdah::Test::Command qw(howdah_bin);
use Howdah::Test::Operator;
use Howdah::Test::Server;
use Test::More;
use Time::HiRes qw(sleep time);

my $APP = 'sub { [200, [], ["$$"]] }';
my $GET = "GET / HTTP/1.0\r\n\r\n";

sub write_file {
    my ($file, $text) = @_;
    open my $out, '>', $file or die $!;
    print {$out} $text;
    return close $out;
}

sub family { return `ps -o pid= --ppid $_[0]` =~ /(\d+)/g }

subtest 'an upgrade to code that hangs, and to a program that heeds no signal' => sub {
    my $operator = Howdah::Test::Operator->new;
    my $dir      = $operator->dir;
    symlink howdah_bin(), "$dir/howdah" or die $!;
    write_file("$dir/app.psgi", $APP);
    my $server = Howdah::Test::Server->start(
        command => ["$dir/howdah", '-l', '127.0.0.1:0', '--upgrade-timeout', '1s', $operator->options],
        env     => {HOWDAH_PERL5LIB => join ':', map { File::Spec->rel2abs($_) } 'blib/lib', 'blib/arch'},
        file    => "$dir/app.psgi",
        options => ['--workers', 1],
    );
    my $settled = sub {
        join ' ', sort { $a <=> $b } family($server->pid);
    };
    my $before = $settled->();
    my $fails  = sub {
        my $what = shift;
        my ($status, undef, $err) = $operator->ask('upgrade');
        is $status, 1, $what;
        like $err, qr/no upgrade, .*: the new process was not ready after 1s \(--upgrade-timeout\) and is ended/;
        is $operator->status->{server}{pid}, $server->pid, '... the old process goes on';
        is(Howdah::Test::Client->ask($server, $GET)->{status}, 200);
        ok $server->wait_until(sub { $settled->() eq $before }), '... and alone';
    };
    write_file("$dir/app.psgi", 'sleep 1 while 1;');
    $fails->('code that hangs');

    unlink "$dir/howdah";
    write_file("$dir/howdah", "#!/bin/sh\ntrap '' INT TERM\nwhile :; do sleep 0.1; done\n");
    chmod oct(755), "$dir/howdah";
    $fails->('a program that hangs');

    unlink "$dir/howdah";
    symlink howdah_bin(), "$dir/howdah" or die $!;
    write_file("$dir/app.psgi", $APP);

    # It has a second, which is little where others have the processors.
    ok $server->wait_until(sub { ($operator->ask('upgrade'))[0] == 0 }), 'one that does not hang works';
};

my $HANGS = <<'PSGI';
use Howdah;
my $flag = $ENV{FLAG};
Howdah->after_fork(sub { sleep 1 while -e $flag });
sub { [200, [], ["$$"]] };
PSGI

for my $timeout ('60s', '0') {
    subtest "a stop while a worker hangs in after_fork, --graceful-timeout $timeout" => sub {
        my $operator = Howdah::Test::Operator->new;
        my $flag     = $operator->dir . '/flag';
        my $server   = Howdah::Test::Server->start(
            app     => $HANGS,
            env     => {FLAG => $flag},
            options => ['--workers', 2, '--graceful-timeout', $timeout, $operator->options],
        );
        write_file($flag, '');
        kill KILL => ($server->workers)[0];
        ok $server->wait_until(sub {
            grep { $_->{state} eq 'starting' && $_->{pid} } @{$operator->status->{workers}{list}};
            }),
            'it hangs';
        my $start = time;
        is $server->stop, 0;
        cmp_ok time - $start, '<', 20, 'it is not waited for';
    };
}

subtest '--graceful-timeout is for all of a stop' => sub {
    my $app = <<'PSGI';
use Howdah;
Howdah->worker_exit(sub { sleep 60 });
sub { select undef, undef, undef, $1 if $_[0]{PATH_INFO} =~ m{^/slow/([\d.]+)}; [200, [], ["$$"]] };
PSGI
    my $server = Howdah::Test::Server->start(app => $app, options => ['--workers', 1, '--graceful-timeout', '10s']);
    my $client = Howdah::Test::Client->asking($server, '/slow/6');
    sleep 0.5;
    my $start = time;
    $server->signal('TERM');
    is $client->response->{status}, 200, 'a request takes most of it';
    is $server->wait_for_exit, 0;
    cmp_ok time - $start, '<', 15, 'a hook at the end has the rest';
};

done_testing;
