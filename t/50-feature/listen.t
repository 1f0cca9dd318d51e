# --listen, --host, --port, --socket, --socket-mode: every kind of listener, and what goes wrong with them.
use strict;
use warnings;
use lib 't/lib';

use File::Temp qw(tempdir);
use Howdah::Test::Client;
use Howdah::Test::Command qw(howdah_bin run_command run_howdah);
use Howdah::Test::File qw(write_file);
use Howdah::Test::Operator;
use Howdah::Test::Server;
use IO::Socket::INET;
use IO::Socket::IP;
use IO::Socket::UNIX;
use Test::More;

my $dir     = tempdir(CLEANUP => 1);
my $app     = 'sub { my $env = shift; [200, [], [join " ", @$env{qw(SERVER_NAME SERVER_PORT)}]] }';
my $request = "GET / HTTP/1.0\r\n\r\n";

sub ask { return Howdah::Test::Client->ask(shift, $request)->{body} }

subtest 'several listeners at once' => sub {
    my @options = ('-l', '127.0.0.1:0', '-S', "$dir/a.sock", '--socket-mode', '600', '--workers', 1);
    my $server  = Howdah::Test::Server->start(app => $app, listen => "$dir/b.sock", options => \@options);
    is scalar(my @urls = $server->urls), 3, 'each is printed';
    is ask($server->port), '127.0.0.1 ' . $server->port, 'port 0 is the one that was printed';
    like ask("$dir/$_.sock"), qr/^localhost /, "$_.sock" for qw(a b);
    is + (stat "$dir/$_.sock")[2] & oct(777), oct(600), "the mode of $_.sock" for qw(a b);
    is $server->stop, 0;
    ok !-e "$dir/$_.sock", "$_.sock is removed" for qw(a b);
};

subtest 'a listener may have a mode and a backlog of its own' => sub {
    my @options = ('-l', "$dir/a.sock,mode=600,127.0.0.1:0,backlog=5,$dir/b.sock", '--socket-mode', '660');
    my $pages   = "$dir/status.sock";
    push @options, '--status-listen', "$pages,mode=0622,backlog=3", '--workers', 1;
    my $server = Howdah::Test::Server->start(app => $app, listen => undef, options => \@options);
    my %mode   = ("$dir/a.sock" => '0600', "$dir/b.sock" => '0660', $pages => '0622');
    is sprintf('%04o', (stat $_)[2] & oct(777)), $mode{$_}, "the mode of $_" for sort keys %mode;
    like ask($_), qr/^localhost /, "$_ serves" for "$dir/a.sock", "$dir/b.sock";
    my $status = Howdah::Test::Client->ask($pages, "GET /server-status?auto HTTP/1.0\r\n\r\n")->{body};
    like $status, qr/^Total/m, 'pages, too';

    my %backlog = map { /^u_str\s+LISTEN\s+\d+\s+(\d+)\s+(\S+)/ ? ($2 => $1) : () } `ss -xl 2>/dev/null`;
SKIP: {
        skip 'no ss', 2 if !%backlog;
        is $backlog{$pages}, 3, 'the backlog is its own';
        is $backlog{"$dir/a.sock"}, 1024, 'or that of all';
    }
};

subtest ':PORT is every address, IPv4 and IPv6' => sub {
    my $server = Howdah::Test::Server->start(app => $app, listen => ':0', options => ['--workers', 1]);
    my ($port) = $server->log =~ /serving .* on \S+:(\d+)/;
    like ask($port), qr/ $port$/, '127.0.0.1';
    my $six = IO::Socket::IP->new(PeerHost => '::1', PeerPort => $port);
SKIP: {
        skip 'this machine has no IPv6', 1 if !$six;
        print {$six} $request;
        like join('', <$six>), qr/ $port$/, '[::1]';
    }
};

subtest 'of many addresses the banner and the status show one that works, and which they are' => sub {
    my @cases = (
        [['-l', ':0'], qr/every (?:IPv4 )?address/],    # a machine without IPv6 has less
        [['-l', '[::]:0'], 'every address'],
        [['-o', '0.0.0.0', '-p', 0], 'every IPv4 address'],
    );
    for my $case (@cases) {
        my ($options, $every) = @$case;
        next if "@$options" =~ /::/ && !IO::Socket::IP->new(LocalHost => '::', Listen => 1);
        my $operator = Howdah::Test::Operator->new;
        my @options  = (@$options, '--workers', 1, $operator->options);
        my $server   = Howdah::Test::Server->start(app => $app, listen => undef, options => \@options);
        my $port     = $server->port;
        my $shown    = qr{http://127\.0\.0\.1:$port \($every, (?:0\.0\.0\.0|\[::\]):$port\)};
        like $server->log, qr/serving .* on $shown with 1 worker/, "@$options";
        is $server->url, "http://127.0.0.1:$port";
        like $server->log, qr{try  curl http://127\.0\.0\.1:$port/ };
        like + ($operator->ask('status'))[1], qr/^listening   $shown$/m;
        like ask($port), qr/ $port$/;
    }
};

# What is put before a command that is to have a list of hosts of its own. Skips the subtest where there can be none.
sub with_hosts {
    my $text = shift;
    write_file("$dir/hosts", $text);
    my @own = ('unshare', '--mount', 'sh', '-c', 'mount --bind "$0" /etc/hosts && exec "$@"', "$dir/hosts");
    plan skip_all => 'no list of hosts of its own can be had here' if system("@own[0, 1] true 2>/dev/null") != 0;
    return @own;
}

subtest 'a name is listened on at each of its addresses, also after an upgrade' => sub {
    my @own      = with_hosts("127.0.0.2 several.test\n127.0.0.3 several.test\n203.0.113.1 several.test\n");
    my $operator = Howdah::Test::Operator->new;
    my @options  = (qw(--listen several.test:0 --listen), "$dir/beside.sock", '--workers', 1, $operator->options);
    my $server =
        Howdah::Test::Server->start(app => $app, command => [@own, howdah_bin(), @options]);
    my ($port) = $server->url =~ /:(\d+)$/;
    my @places = map { [PeerHost => $_, PeerPort => $port] } '127.0.0.2', '127.0.0.3';
    my $ask    = sub {
        my $socket = IO::Socket::IP->new(@{$_[0]}) or return "$@";
        print {$socket} $request;
        return join('', <$socket>) =~ s/.*\r\n\r\n//sr;
    };
    for my $when ('at first', 'after an upgrade', 'after another') {
        is + ($operator->ask('upgrade'))[0], 0 if $when =~ /after/;
        is $ask->($_), "$_->[1] $port", "$_->[1] $when" for @places;
        like ask("$dir/beside.sock"), qr/^localhost /, 'and the listener behind it';
    }
    is + ($operator->ask('stop'))[0], 0;
};

subtest 'an address that a name has and that is given by itself is listened on once, as is said there' => sub {
    my @own      = with_hosts("127.0.0.2 several.test other.test\n127.0.0.3 several.test\n");
    my $operator = Howdah::Test::Operator->new;
    my $free     = IO::Socket::INET->new(LocalAddr => '127.0.0.2', Listen => 1)->sockport;
    my $listen   = "several.test:$free,other.test:$free,$dir/beside.sock,127.0.0.3:$free,proxy-protocol";
    my @options  = ('--listen', $listen, qw(--trusted-proxy 127.0.0.0/8 --workers 1), $operator->options);
    my $server   = Howdah::Test::Server->start(app => $app, command => [@own, howdah_bin(), @options]);
    my $said     = "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n";

    for my $when ('at first', 'after an upgrade') {
        is + ($operator->ask('upgrade'))[0], 0 if $when =~ /after/;
        for my $case (['127.0.0.2', '', "127.0.0.2 $free"], ['127.0.0.3', $said, '192.0.2.2 2']) {
            my ($host, $before, $body) = @$case;
            my $socket = IO::Socket::IP->new(PeerHost => $host, PeerPort => $free);
            print {$socket} $before, $request;
            like join('', <$socket>), qr/ 200 .*\n\Q$body\E$/s, "$host $when";
        }
        like ask("$dir/beside.sock"), qr/^localhost /, 'and the listener between them';
    }
    is + ($operator->ask('stop'))[0], 0;
};

subtest 'a socket file that nobody listens on is replaced' => sub {
    IO::Socket::UNIX->new(Local => "$dir/stale.sock", Listen => 1) or die $!;
    ok -S "$dir/stale.sock", 'left behind';
    my $server = Howdah::Test::Server->start(app => $app, listen => "$dir/stale.sock", options => ['--workers', 1]);
    like ask("$dir/stale.sock"), qr/^localhost /;
};

subtest 'a stop of many listeners on Unix sockets is nobody else\'s doing' => sub {
    my @options = ('--workers', 1, map { ('--listen', "$dir/$_.many") } 1 .. 200);
    my $server  = Howdah::Test::Server->start(app => $app, listen => undef, options => \@options);
    is $server->stop, 0;
    unlike $server->log, qr/ERROR/, 'no error is told';
};

subtest 'more listeners than the limit of open files has room for' => sub {
    my @serve = (howdah_bin(), 'serve', '--workers', 1, '-e', $app, map { ('-l', "$dir/$_.few") } 1 .. 50);
    my $limit = 'ulimit -n 160 && exec "$@"';
    my ($status, undef, $err) = run_command('sh', '-c', $limit, 'sh', @serve);
    is $status, 1;
    like $err,
        qr/open files is 160, and a start takes more than \d+, 2 of them for workers and 150 for listeners: raise/;
};

subtest 'what cannot be had is named, with status 1' => sub {
    open my $file, '>', "$dir/file" or die $!;
    my $taken = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 1);
    my $port  = $taken->sockport;
    my @cases = (
        ["127.0.0.1:$port", qr/127\.0\.0\.1:$port: Address already in use/],
        ["$dir/file", qr/no socket is in the way/],
        ["$dir/no/such/app.sock", qr/app\.sock: No such file/],
        ['no-such-host.invalid:5000', qr/no-such-host\.invalid/],
    );
    for my $case (@cases) {
        my ($status, undef, $err) = run_howdah('-l', $case->[0], '-e', $app);
        is $status, 1, $case->[0];
        like $err, $case->[1];
    }
};

done_testing;
