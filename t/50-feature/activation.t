# Listening sockets from outside: systemd's LISTEN_FDS and Server::Starter's SERVER_STARTER_PORT. A launcher of the
# test's own sets the variables, as they do.
use strict;
use warnings;
use lib 't/lib';

use File::Temp qw(tempdir);
use Howdah::Test::Client;
use Howdah::Test::Command qw(howdah_bin);
use Howdah::Test::File qw(read_if_any);
use Howdah::Test::Load;
use Howdah::Test::Ports qw(free_port);
use Howdah::Test::Operator;
use Howdah::Test::Server;
use Howdah::Test::Tls;
use IO::Socket::INET;
use IO::Socket::UNIX;
use Test::More;
use Time::HiRes qw(sleep);

BEGIN { $^F = 50 }    # sockets stay open over exec
my $dir = tempdir(CLEANUP => 1);
my $app = 'sub { [200, [], [join " ", map { $_ // "none" } @{$_[0]}{qw(SERVER_PORT)}, @ENV{qw(LISTEN_FDS NOTIFY_SOCKET '
    . 'SERVER_STARTER_PORT)}]] }';
our $tcp  = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen     => 64, ReuseAddr => 1) or die $!;
our $unix = IO::Socket::UNIX->new(Local     => "$dir/app.sock", Listen => 64) or die $!;
my $port = $tcp->sockport;

# Starts howdah with the two sockets at descriptors 3 and 4, after some Perl code that sets variables.
sub start {
    my ($variables, @options) = @_;
    my ($first, $second)      = map { fileno $_ } $tcp, $unix;
    my $move   = "POSIX::dup2(\$_->[0], \$_->[1]) for [$first, 20], [$second, 21], [20, 3], [21, 4];";
    my @launch = ($^X, '-MPOSIX', '-e', "$move $variables exec \@ARGV or die", howdah_bin(), '--workers', 2);
    return Howdah::Test::Server->start(app => $app, listen => undef, command => \@launch, options => \@options);
}

sub answer { return Howdah::Test::Client->ask(shift, "GET / HTTP/1.0\r\n\r\n")->{body} }

subtest 'systemd: LISTEN_FDS' => sub {
    my $server = start('$ENV{LISTEN_PID} = $$; $ENV{LISTEN_FDS} = 2; $ENV{LISTEN_FDNAMES} = "web:local";');
    is_deeply [$server->urls], ["http://127.0.0.1:$port", "unix:$dir/app.sock"];
    is answer($port), "$port none none none", 'TCP; the application does not see the variables';
    is answer("$dir/app.sock"), '80 none none none', 'Unix';
    is $server->stop, 0;
    ok -S "$dir/app.sock", 'the socket file is not ours to remove';
};

SKIP: {
    skip 'needs IO::Socket::SSL and openssl', 1 if !Howdah::Test::Tls->is_installed;
    subtest 'with a certificate TCP speaks TLS, and a Unix socket does not' => sub {
        my $operator = Howdah::Test::Operator->new;
        my $server   = start(
            '$ENV{LISTEN_PID} = $$; $ENV{LISTEN_FDS} = 2;',
            Howdah::Test::Tls->common->options, $operator->options
        );
        for my $process ('the first', 'the next') {
            ok + Howdah::Test::Tls::connect_to($port), "$process: TLS";
            is answer("$dir/app.sock"), '80 none none none', "$process: none";
            is + ($operator->ask('upgrade'))[0], 0, 'upgrade' if $process eq 'the first';
        }
    };
}

subtest 'certificates that none of the sockets would show' => sub {
    plan skip_all => 'needs IO::Socket::SSL and openssl' if !Howdah::Test::Tls->is_installed;
    local $tcp = IO::Socket::UNIX->new(Local => "$dir/other.sock", Listen => 64) or die $!;
    my $tls    = Howdah::Test::Tls->common;
    my @given  = ('$ENV{LISTEN_PID} = $$; $ENV{LISTEN_FDS} = 2;', '-l', '127.0.0.1:0', $tls->options);
    my $server = start(@given);
    ok $server->wait_for_log(qr/nobody sees the certificates: no listener speaks TLS/), 'are told';
    like answer("$dir/other.sock"), qr/none/, 'and do not keep the server from serving';
    is $server->stop, 0;
    ok !eval { start(@given, '--tls-client-ca', $tls->cert) }, 'but clients are not asked for theirs in vain';
    like $@, qr/--tls-client-ca asks nobody: none of the sockets that were handed over speaks TLS/;
};

subtest 'who sees the certificates of a server on Unix sockets' => sub {
    plan skip_all => 'needs IO::Socket::SSL and openssl' if !Howdah::Test::Tls->is_installed;
    my $tls       = Howdah::Test::Tls->common;
    my @redirects = ('--redirect-to-https', '127.0.0.1:0');
    my ($nobody, $elsewhere) = (qr/nobody sees the certificates/, qr/sends clients to port 443, and no listener/);
    for (
        [['-l', "tls:$dir/tls.sock", '--tls-client-ca', $tls->cert], []],
        [['-l', "tls:$dir/tls.sock", @redirects], []],
        [['-l', "$dir/plain.sock", @redirects], [$nobody, $elsewhere]],
        [['-l', "$dir/plain.sock", @redirects, '--status-listen', 'tls:127.0.0.1:0'], [$elsewhere]],
        )
    {
        my ($options, $told) = @$_;
        my $server = Howdah::Test::Server->start(
            listen  => undef,
            app     => 'sub { [200, [], []] }',
            options => [$tls->options, @$options],
            expect  => qr/: serving /,
        );
        like $server->log, $_, "@$options: is told" for @$told;
        is scalar(() = $server->log =~ /WARN/g), scalar(@$told), "@$options: nothing else";
        is $server->stop, 0;
    }
};

subtest 'connections made while no server ran are served by the next' => sub {
    my $client = Howdah::Test::Client->new($port);
    $client->write("GET / HTTP/1.0\r\n\r\n");
    my $server = start('$ENV{LISTEN_PID} = $$; $ENV{LISTEN_FDS} = 2;');
    like $client->response->{body}, qr/^$port /;
};

subtest 'a socket that another process has shut holds nobody up' => sub {
    my $own    = IO::Socket::UNIX->new(Local => "$dir/shut.sock", Listen => 64) or die $!;
    my $server = do { local $unix = $own; start('$ENV{LISTEN_PID} = $$; $ENV{LISTEN_FDS} = 2;') };
    is answer("$dir/shut.sock"), '80 none none none', 'before';
    shutdown $own, 0;
    like answer($port), qr/^$port /, 'the other listener is served';
    is $server->stop, 0, 'the server stops';
};

subtest 'one on TCP is told, and the server does not look for clients there without end' => sub {
    my $own    = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 64, ReuseAddr => 1) or die $!;
    my $server = do { local $tcp = $own; start('$ENV{LISTEN_PID} = $$; $ENV{LISTEN_FDS} = 2;') };
    my $spent  = sub {
        my @times = split ' ', read_if_any('/proc/' . $server->pid . '/stat') =~ s/.*\) //sr;
        return $times[11] + $times[12];
    };
    like answer($own->sockport), qr/^\d+ /, 'before';
    shutdown $own, 0;
    ok $server->wait_for_log(qr/ERROR .*shut the socket of .*127.0.0.1/), 'the log says so';
    my $before = $spent->();
    sleep 2;
    cmp_ok $spent->() - $before, '<', 20, 'hundredths of a second of CPU in two seconds';
    is answer("$dir/app.sock"), '80 none none none', 'the other listener is served';
    is $server->stop, 0, 'the server stops';
    is scalar(() = $server->log =~ /shut the socket/g), 1, 'once';
};

subtest 'variables meant for another process are left alone' => sub {
    my $server = Howdah::Test::Server->start(app => $app, env => {LISTEN_PID => 1, LISTEN_FDS => 2});
    isnt $server->port, $port;
};

subtest 'Server::Starter: SERVER_STARTER_PORT' => sub {
    my $server = start(qq{\$ENV{SERVER_STARTER_PORT} = "127.0.0.1:$port=3;$dir/app.sock=4";});
    is answer($port), "$port none none none";
    like answer("$dir/app.sock"), qr/^80 /;
    is $server->stop, 0;
    ok -S "$dir/app.sock", 'the socket file stays';
};

subtest 'a variable that promises what is not there is named' => sub {
    my $server = Howdah::Test::Server->launch(app => $app, listen => undef, env => {SERVER_STARTER_PORT => '80=77'});
    is $server->wait_for_exit, 1;
    like $server->log, qr/SERVER_STARTER_PORT.*descriptor 77/;
};

SKIP: {
    my ($starter) = grep { -x } map { "$_/start_server" } split /:/, $ENV{PATH};
    skip 'there is no start_server', 1 if !$starter;
    subtest 'start_server: HUP replaces the server, and no request is lost' => sub {
        my $free    = free_port();
        my @command = ($starter, '--interval', 1, '--port', "127.0.0.1:$free", '--', howdah_bin(), '--workers', 2);
        my @options = ('--control', "$dir/control", 't/apps/load.psgi');
        my $server  = Howdah::Test::Server->start(command => \@command, options => \@options);
        my $load    = Howdah::Test::Load->start($server, connections => 8, seconds => 7);
        for my $generation (2, 3) {
            $server->signal('HUP');
            ok $server->wait_until(sub { (() = $server->log =~ /serving .* on /g) == $generation }), "HUP $generation";
            sleep 2;
        }
        is_deeply $load->finish->{problems}, [];
        ok -S "$dir/control", 'the control socket is the new one\'s';
        $server->signal('TERM');
        ok defined $server->wait_for_exit, 'TERM ends all';
    };
}

done_testing;
