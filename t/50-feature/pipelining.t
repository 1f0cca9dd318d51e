# Requests that are sent together (RFC 9112 9.3.2): short responses go out in one write, where the next request is here already,
# and none waits for a slow one. Each kind of response behind one that waits, by all that connections are carried by.
use strict;
use warnings;
use lib 't/lib';

use File::Temp ();
use Howdah::Test::Client;
use Howdah::Test::Operator;
use Howdah::Test::Server;
use Howdah::Test::Tls;
use POSIX ();
use Test::More;
use Time::HiRes qw(sleep);

# Pages; /held answers once the file that its query names is there.
my $app = <<'PSGI';
use Time::HiRes qw(sleep);
my %page = (
    '/short'  => sub { [200, ['Content-Type' => 'text/plain'], ['short']] },
    '/empty'  => sub { [204, [], []] },
    '/large'  => sub { [200, [], ['l' x 100_000]] },
    '/larger' => sub { [200, [], ['L' x 2_000_000]] },
    '/file'   => sub { open my $in, '<', __FILE__ or die $!; [200, [], $in] },
    '/dies'   => sub { die "as it should\n" },
    '/echo'   => sub { my $env = shift; $env->{'psgi.input'}->read(my $body, 100_000); [200, [], [$body]] },
    '/pieces' => sub { sub { my $w = $_[0]->([200, []]); $w->write($_) for 'one', 'two'; $w->close } },
    '/hints'  => sub { $_[0]{'psgix.informational'}->(103, [Link => '</style.css>']); [200, [], ['hinted']] },
    '/exits'  => sub { exit 3 },
    '/held'   => sub {
        my $env = shift;
        for (1 .. 2000) { last if -e $env->{QUERY_STRING}; sleep 0.01 }
        return [200, [], ['no longer']];
    },
    '/taken' => sub {
        my $env = shift;
        my $io  = $env->{'psgix.io'};
        return sub { syswrite $io, 'by hand'; close $io };
    },
);
sub { $page{$_[0]{PATH_INFO}}->($_[0]) };
PSGI

my $GET = sub { "GET $_[0] HTTP/1.1\r\nHost: h\r\n\r\n" };

sub ask_together {
    my ($server, @requests) = @_;
    my $client = Howdah::Test::Client->new($server);
    $client->write(join '', @requests);
    return $client;
}

sub shape {
    my $response = shift;
    return [$response->{status}, $response->{body}, $response->{error}];
}

sub each_kind {
    my $server = Howdah::Test::Server->start(app => $app, options => ['--workers', 3]);
    my $post   = "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello";
    my $chunks = "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    my $long   = "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 90000\r\n\r\n" . 'h' x 90_000;
    my @kinds  = ($post, $chunks, $long, map { $GET->($_) } qw(/empty /large /larger /file /dies /pieces /exits));
    for my $kind (@kinds) {
        my ($line)   = $kind =~ /(.*?)\r/;
        my $alone    = shape(Howdah::Test::Client->ask($server, $kind));
        my @together = ($GET->('/short'), $GET->('/short'), $kind, $GET->('/short'));
        my $client   = ask_together($server, @together);
        my @said     = map { shape($client->response) } @together;
        my $short    = [200, 'short', ''];
        is_deeply \@said, [$short, $short, $alone, $short], "$line among others";
        ok $client->is_quiet, '... and nothing more';
    }
    my $client = ask_together($server, $GET->('/short'), $GET->('/hints'), $GET->('/short'));
    is_deeply [map { $client->response->{status} } 1 .. 4], [200, 103, 200, 200], 'an interim response';
    $client = ask_together($server, $GET->('/short'), $GET->('/taken'));
    is $client->response->{body}, 'short', 'one before a connection that is taken';
    is $client->rest, 'by hand', '... by hand behind it';
    $client = ask_together($server, $GET->('/short'), "nonsense\r\n\r\n");
    is_deeply [map { $client->response->{status} } 1, 2], [200, 400], 'what is no request';
    return;
}

sub none_waits_for_a_slow_one {
    my $operator = Howdah::Test::Operator->new;
    my $server   = Howdah::Test::Server->start(app => $app, options => [$operator->options, '--workers', 2]);
    for my $change ('nothing', 'reload', 'stop') {
        my $file   = File::Temp::tmpnam();
        my @held   = ($GET->('/short'), $GET->('/short'), $GET->("/held?$file"));
        my $client = ask_together($server, @held);
        is_deeply [map { $client->response->{body} } 1, 2], ['short', 'short'], "$change: those before have come";
        ok $client->is_quiet, '... and the slow one not yet';
        my $asked = $change eq 'nothing' ? undef : fork // die "cannot fork: $!";
        POSIX::_exit(($operator->ask($change))[0]) if defined $asked && $asked == 0;
        sleep 0.2;
        open my $out, '>', $file or die "cannot write $file: $!";
        close $out;
        is $client->response->{body}, 'no longer', '... which has come as well';
        waitpid $asked, 0 if $asked;
        is $?, 0, "howdah $change" if $asked;
        unlink $file;
    }
    return;
}

sub the_log_has_each_of_them {
    my $server =
        Howdah::Test::Server->start(app => $app, options => ['--access-log', '-', '--access-log-format', '=%U %s %b=']);
    my @paths  = ('/short') x 5;
    my $client = ask_together($server, map { $GET->($_) } @paths, '/empty', '/large', '/short');
    $client->response for 1 .. 8;
    ok $server->wait_for_log(qr{(?:=/short 200 5=\s+){5}=/empty 204 -=\s+=/large 200 100000=\s+=/short 200 5=}),
        'bytes of each body'
        or diag $server->log;
    return;
}

Howdah::Test::Tls::either_way(sub {
    subtest 'each kind of response behind one that waits' => \&each_kind;
    subtest 'none waits for a slow one'                   => \&none_waits_for_a_slow_one;
    subtest 'the log has each of them'                    => \&the_log_has_each_of_them;
});

done_testing;
