# A HEAD of what has no end, such as a stream of events: its client has all that there is for it, and its worker is not kept for it
# as long as the connection lives. Nothing tells of a client of HTTP/2 that stays: its worker is let go once it has gone on for half a
# minute to make what nobody gets.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Frames;
use Howdah::Test::Scripts;
use Howdah::Test::Server;
use Howdah::Test::Tls;
use Test::More;
use Time::HiRes qw(sleep time);

my $app = <<'PSGI';
sub {
    my $env = shift;
    return [200, [], ["$$"]] if $env->{PATH_INFO} ne '/events';
    return sub {
        my $writer = shift->([200, ['Content-Type' => 'text/event-stream']]);
        print STDERR "begins\n";
        eval { while (1) { $writer->write(": still here\n\n"); select undef, undef, undef, 0.05 } };
        print STDERR ref $@ eq 'Howdah::ClientGone' ? "is let go\n" : "dies: $@\n";
        $writer->close;
    };
};
PSGI

sub start { return Howdah::Test::Server->start(app => $app, options => ['--workers', 1]) }

sub is_let_go {
    my $server = shift;
    return $server->wait_until(sub { $server->log =~ /is let go/ });
}

Howdah::Test::Tls::either_way(sub {
    my $server = start();
    my $client = Howdah::Test::Client->new($server);
    $client->write("HEAD /events HTTP/1.1\r\nHost: x\r\n\r\n");
    is $client->response(head => 1)->{status}, 200, 'by HTTP/1 a client has its head';
    ok $server->wait_for_log(qr/begins/);
    $client->write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    is_deeply [$server->workers], [$client->response->{body}], 'and what it asks for next on the connection';
    ok is_let_go($server), '... since the code behind the head is let go';
    unlike $server->log, qr/ERROR/;
});

Howdah::Test::Tls::either_way(sub {
    my $server = start();
    my $client = Howdah::Test::Frames->new($server);
    $client->request(1, '/events', method => 'HEAD');
    ok $client->response(1)->{end}, 'by HTTP/2 a client has its head, and the end of the stream';
    close $client->socket;
    ok is_let_go($server), 'when it has closed its connection, the code is let go';
});

subtest 'a client that stays' => sub {
    my $perl = <<~'SCRIPT';
        #!/usr/bin/perl
        $| = 1;
        open my $note, '>', "$0.pid" or die $!;
        print $note $$;
        close $note;
        print "Content-Type: text/plain\n\n";
        while (1) { print "still here\n"; select undef, undef, undef, 0.2 }
        SCRIPT
    my $sh =
        "echo \$\$ > exec.cgi.pid\nprintf 'Content-Type: text/plain\\n\\n'\nwhile :; do echo still here; sleep 0.2; done\n";
    my $scripts = Howdah::Test::Scripts->new('exec.cgi' => $sh, 'fork.cgi' => $perl);
    my $kept =
        Howdah::Test::Scripts->new('keep.cgi' => $perl, 'short.cgi' => "#!/usr/bin/perl\nprint qq{Status: 204\\n\\n}");
    my $app = <<~'PSGI';
        sub {
            my $path = shift->{PATH_INFO};
            return [200, [], ["$$"]] if $path eq '/';
            return sub {
                my $writer = shift->([$path eq '/204' ? 204 : 200, []]);
                print STDERR "$path begins\n";
                if ($path eq '/quiet') { sleep 40; print STDERR "has its time\n"; return $writer->close }
                while (1) { $writer->write($path eq '/nothing' ? '' : 'x'); select undef, undef, undef, 0.2 }
            };
        };
        PSGI
    my @scripts = ($scripts->option('auto'), '--cgi', '/k=' . $kept->dir . ',mode=keep,workers=1');
    my $server  = Howdah::Test::Server->start(app => $app, options => ['--workers', 5, @scripts]);
    my $start   = time;
    my @plain   = map { Howdah::Test::Client->new($server) } 1, 2;

    for my $client (@plain) {
        my $path = $client == $plain[0] ? '/endless' : '/c/exec.cgi';
        $client->write("HEAD $path HTTP/1.1\r\nHost: x\r\n\r\n");
        is $client->response(head => 1)->{status}, 200, "by HTTP/1 $path has its head";
    }
    my $client = Howdah::Test::Frames->new($server);
    my %asked  = (1 => '/nothing', 3 => '/204', 5 => '/quiet', 7 => '/c/fork.cgi', 9 => '/k/keep.cgi');
    for my $id (sort { $a <=> $b } keys %asked) {
        $client->request($id, $asked{$id}, method => $asked{$id} eq '/204' ? 'GET' : 'HEAD');
        ok $client->response($id)->{end}, "by HTTP/2 $asked{$id} has its head, and the end of the stream";
    }
    ok $server->wait_until(sub { (() = $server->log =~ /INFO .*the client has left/g) == 3 }, 90),
        'who goes on is let go';
    cmp_ok time - $start, '>=', 29, '... not before its time';
    my $lives = sub { my $pid = $scripts->read("$_[0].pid"); $pid =~ /\A\d+\s*\z/ && kill 0, $pid };
    for my $name ('exec.cgi', 'fork.cgi') {
        ok $server->wait_until(sub { !$lives->($name) }, 60), "so is $name";
    }
    $client->request(11, '/k/short.cgi');
    is $client->response(11)->{status}, 204, 'so is a script that is kept, in whose worker another one runs';
    ok $server->wait_until(sub { $server->log =~ /has its time/ }, 90), 'who makes nothing is left to it';
    $_->write("GET / HTTP/1.1\r\nHost: x\r\n\r\n") for @plain;
    is $_->response->{status}, 200, 'the connection goes on' for @plain;
    $client->request(13, '/');
    is $client->response(13)->{status}, 200;
    is_deeply [$client->goaways], [];
    unlike $server->log, qr/ERROR|WARN/;
};

done_testing;
