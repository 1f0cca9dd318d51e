# howdah top: what it shows of a server, as plain text and in a terminal.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Command qw(howdah_bin run_howdah);
use Howdah::Test::Operator;
use Howdah::Test::Server;
use Test::More;
use Time::HiRes qw(sleep time);

my $operator = Howdah::Test::Operator->new;
my $app =
    'sub { my ($s) = $_[0]{PATH_INFO} =~ m{/slow/([\d.]+)}; select undef, undef, undef, $s if $s; [200, [], ["ok"]] }';
my $server =
    Howdah::Test::Server->start(app => $app, options => ['--workers', 3, '--name', 'shop', $operator->options]);

subtest '--once prints one look' => sub {
    my @waiting = map { Howdah::Test::Client->new($server) } 1 .. 2;
    $_->write("GET /slow/3?a=%1b[2J HTTP/1.1\r\nHost: shop.example\r\n\r\n") for @waiting;
    $server->wait_until(sub {
        2 == grep { $_->{state} eq 'busy' } @{$operator->status->{workers}{list}};
    });
    my ($status, $out) = $operator->ask('top', '--once');
    is $status, 0;
    like $out, qr/^shop  ready  generation 1  up \S+  Howdah\/\S+ pid ${\$server->pid}  \d\d:\d\d:\d\d$/m;
    like $out, qr/^connections +2 open  2 running$/m;
    like $out, qr/^ +\S+  GET shop\.example\/slow\/3\?a=%1b\[2J 127\.0\.0\.1$/m, 'the slowest requests';
    like $out, qr/^ +# +pid state .* request \(2\/3 busy, 3 wanted\)$/m;
    is scalar(() = $out =~ /^ +\d +\d+ busy .* GET /mg), 2, 'busy workers';
    is scalar(() = $out =~ /^ +\d +\d+ idle .* -$/mg), 1, 'an idle one';
    unlike $out, qr/\e/, 'no colours, nothing for a terminal';
    unlike $out, qr/quit/, 'and no keys';
};

subtest 'without a terminal, or without a server' => sub {
    my ($status, undef, $err) = $operator->ask('top');
    is $status, 1;
    like $err, qr/howdah top needs a terminal; --once prints/;
    ($status, undef, $err) = run_howdah('top', '--control', $operator->dir . '/none');
    is $status, 1;
    like $err, qr/no server answers at .*--name.*--control/;
};

SKIP: {
    my ($tmux) = grep { -x } map { "$_/tmux" } split /:/, $ENV{PATH};
    skip 'needs tmux' if !$tmux;
    my $dir    = $operator->dir;
    my $socket = "$dir/tmux";
    my $do     = sub { open my $out, '-|', $tmux, '-S', $socket, @_ or die $!; local $/; return scalar(<$out>) // '' };
    local $ENV{TERM} = 'screen';
    my $command = join ' ', howdah_bin(), 'top', '--control', $operator->control, '--interval', '200ms';
    $do->('-f', '/dev/null', 'new-session', '-d', '-x', 80, '-y', 24, "exec env PS1='back> ' sh -i");
    my $screen = sub { $do->('capture-pane', '-p') };
    my $shows  = sub {
        my $pattern = shift;
        my $seen;
        $server->wait_until(sub { ($seen = $screen->()) =~ $pattern }, 10);
        return like $seen, $pattern, shift;
    };
    $shows->(qr/back>/, 'a shell');
    $do->('send-keys', $command, 'Enter');
    $shows->(qr/^shop  ready .*^q quit  s sort: time  r reverse  p pause  \+ - every 200ms/ms, 'the frame');
    $do->('send-keys', 'ssss');
    $shows->(qr/pidv .*sort: pid/s, 'sorted otherwise');
    $do->('send-keys', 'p');
    $shows->(qr/  paused\n.*p go on/s, 'paused');
    $do->('send-keys', 'p');
    $do->('resize-window', '-x', 120, '-y', 12);
    $shows->(qr/^shop  ready .*^q quit/ms, 'another size');
    $do->('send-keys', 'q');
    $shows->(qr/back>\s*\z/, 'and the terminal is as before');
    unlike $screen->(), qr/quit/;

    $do->('send-keys', "TERM=dumb $command", 'Enter');
    $shows->(qr/TERM says that this one is dumb; --once/, 'nothing is drawn where it cannot be');
    $do->('send-keys', "clear; $command", 'Enter');
    $shows->(qr/^shop  ready .*^q quit/ms, 'again');
    kill STOP => $server->pid;
    sleep 0.5;
    my $pressed = time;
    $do->('send-keys', 'q');
    $shows->(qr/back>\s*\z/, 'with a server that is stopped');
    cmp_ok time - $pressed, '<', 3, 'keys do not wait for it';
    kill CONT => $server->pid;

    for my $signal (qw(TERM HUP INT)) {
        $do->('send-keys', 'clear', 'Enter');
        $do->('send-keys', "sh -c 'echo \$\$ >$dir/top; exec $command'", 'Enter');
        $shows->(qr/^shop  ready .*^q quit/ms, 'once more');
        open my $in, '<', "$dir/top" or die $!;
        kill $signal => <$in> + 0;
        $shows->(qr/back>\s*\z/, "and as before it is by $signal, too");
        unlike $screen->(), qr/quit/;
        is $do->('display-message', '-p', '#{cursor_flag}'), "1\n", 'with its cursor';
    }
    $do->('new-window', "trap : HUP; $command; echo \$? >$dir/gone");
    $shows->(qr/^shop  ready .*^q quit/ms, 'in a window of its own');
    $do->('kill-window');
    $server->wait_until(sub { -s "$dir/gone" });
    open my $gone, '<', "$dir/gone" or die $!;
    is <$gone>, "129\n", 'it ends in order when its terminal is gone';
    $do->('send-keys', $command, 'Enter');
    $shows->(qr/^shop  ready /m, 'again');
    $server->stop;
    $shows->(qr/^shop  no server answers at /m, 'a server that goes is missed');
    $do->('kill-server');
}

done_testing;
