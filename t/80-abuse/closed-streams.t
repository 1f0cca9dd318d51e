# Streams of HTTP/2 that both sides have closed, since their responses were whole before the code was, beside whatever reloads, replaces, kills
# and stops: the client hears nothing further of them, what is left of the connection goes on as any does, and the code has its time: its
# client has not left, also where the server has told it to.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::File qw(read_if_any);
use Howdah::Test::Frames qw(LAST);
use Howdah::Test::Operator;
use Howdah::Test::Server;
use Test::More;

# Goes on until the test writes a file; says so itself, for the client cannot see that.
my $app = <<'PSGI';
my ($dir) = $ENV{HOWDAH_CONTROL} =~ m{(.*)/};
sub goes_on {
    print STDERR "goes on\n";
    for (1 .. 20 * 60) { last if -e "$dir/enough"; select undef, undef, undef, 0.05 }
    print STDERR "is through\n";
}
sub writes {
    my ($first, @then) = @_;
    return sub {
        my $writer = shift->([200, $first eq 'whole' ? ['Content-Length' => 5] : []]);
        $writer->write($first);
        goes_on();
        $writer->write($_) for @then;
        $writer->close;
    };
}
my %do = (
    '/none' => sub { shift->([204, []]); goes_on() },
    '/part' => writes('first', 'second'),
    '/whole' => writes('whole'),
);
sub { $do{$_[0]{PATH_INFO}} // [200, [], [$$]] };
PSGI

my @asked = ([HEAD => '/part'], [HEAD => '/whole'], [GET => '/whole'], [GET => '/none'], [POST => '/whole']);

# What happens, and its options; does it, and says whether the process that has the connection leaves.
my %beside = (
    reload                             => [[], sub { $_[1]->ask('reload'); return 0 }],
    upgrade                            => [[], sub { $_[1]->ask('upgrade'); return 1 }],
    stop                               => [[], sub { $_[0]->signal('TERM'); return 1 }],
    'the last request of a connection' => [['--keepalive-requests', scalar @asked], sub { return 1 }],
    'a worker killed'                  => [[], sub { kill KILL => ($_[2])[0]; return 0 }],
    'the zygote killed'                => [[], sub { kill KILL => $_[0]->processes('zygote'); return 0 }],
    'a launcher killed'                => [[], sub { kill KILL => ($_[0]->launchers)[0]; return 0 }],
    'a request that takes too long'    =>
        [['--request-timeout', '500ms'], sub { select undef, undef, undef, 1.5; return 0 }],
);

sub lines { my ($server, $what) = @_; return scalar(() = $server->log =~ /: $what$/gm) }

for my $beside (sort keys %beside) {
    subtest $beside => sub {
        my ($options, $happens) = @{$beside{$beside}};
        my $operator = Howdah::Test::Operator->new;
        my $access   = $operator->dir . '/access';
        my $server   = Howdah::Test::Server->start(
            app     => $app,
            options => [
                '--workers', @asked + 1, '--abort-on-disconnect', '--access-log', $access,
                '--access-log-format', '%m %U %s', @$options, $operator->options
            ],
        );
        my $client = Howdah::Test::Frames->new($server);
        my $stream = -1;
        my %response;
        for my $asked (@asked) {
            my ($method, $path) = @$asked;
            $client->request($stream += 2, $path, method => $method, open => $method eq 'POST');
            $client->send(DATA => LAST, $stream, 'body') if $method eq 'POST';
            $response{"$method $path"} = $client->response($stream);
        }
        is_deeply [grep { !$response{$_}{end} } keys %response], [], 'all responses are whole';
        ok $server->wait_until(sub { lines($server, 'goes on') == @asked }), 'their code goes on';
        my @busy = map { $_->{pid} } grep { $_->{state} eq 'busy' } @{$operator->status->{workers}{list}};
        is scalar(@busy), scalar(@asked), 'and has as many workers';
        my $leaves = $happens->($server, $operator, @busy);
        if ($leaves) {
            ok $client->is_closed, 'the connection has its end';
            is_deeply [grep { $_ } $client->goaways], [], 'without a fault';
        }
        else {
            $client->request($stream += 2, '/');
            my $next = $client->response($stream);
            like $next->{body}, qr/^\d+$/, 'the connection goes on';
            is_deeply [grep { $_ eq $next->{body} } @busy], [], 'with another worker';
        }
        is_deeply [grep { defined $response{$_}{reset} } keys %response], [], 'nothing is taken back';
        is lines($server, 'is through'), 0, 'the code still goes on';
        $server->write_file('enough', '');
        my $through = @asked - ($beside eq 'a worker killed');
        ok $server->wait_until(sub { lines($server, 'is through') == $through }), 'all of it comes to its end';
        undef $client;
        $operator->ask('stop');
        ok $server->wait_until(sub { !$operator->is_running($operator->pid) }), 'a clean end';
        ok $server->wait_until(sub { !$server->is_running }), '... of all processes';
        my @logged = grep { !m{ / } } split /\n/, read_if_any($access);
        is_deeply [sort @logged], [sort map { "@$_ " . ($_->[1] eq '/none' ? 204 : 200) } @asked],
            'each is logged once';
        unlike $server->log, qr/the client has left|panicked/;
    };
}

done_testing;
