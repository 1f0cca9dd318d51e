# A crowd that trickles large responses, far more than there are workers: nobody else notices, the front's memory stays
# small, and everything is given back when they leave. Those who are below --min-send-rate are sent away.
use strict;
use warnings;
use lib 't/lib';

use Digest::MD5 qw(md5_hex);
use Howdah::Test::Client;
use Howdah::Test::Frames;
use Howdah::Test::Load;
use Howdah::Test::Operator;
use Howdah::Test::Server;
use IO::Poll qw(POLLERR POLLHUP);
use Socket qw(SOL_SOCKET SO_RCVBUF);
use Test::More;
use Time::HiRes qw(sleep time);

my $whole = md5_hex((join '', map { sprintf "%07d\n", $_ } 1 .. 125_000) x 12);
my $get   = "HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

sub ask {
    my ($server, $path) = @_;
    my $client = Howdah::Test::Client->new($server);
    $client->write("GET $path $get");
    return $client;
}

sub sip {
    my ($client, $length) = @_;
    return sysread $client->socket, $client->{input}, $length, length($client->{input} // '');
}

# What has come before it is there to be read all the same.
sub is_reset {
    my $poll = IO::Poll->new;
    $poll->mask($_[0]->socket => POLLERR | POLLHUP);
    return $poll->poll(0) > 0;
}

# Megabytes of memory that a process has for itself.
sub anonymous {
    my $pid = shift;
    open my $in, '<', "/proc/$pid/status" or die "no status of $pid: $!";
    my ($line) = grep { /^RssAnon:/ } <$in>;
    return +($line =~ /(\d+)/)[0] / 1024;
}

subtest 'a crowd' => sub {
    my $operator = Howdah::Test::Operator->new;
    my $server   = Howdah::Test::Server->start(options => ['--workers', 2, $operator->options], app => <<'PSGI');
        my ($large, $load) = map { do "./t/apps/$_.psgi" or die "$_: $@$!" } qw(large load);
        sub { $_[0]{PATH_INFO} eq '/stream' ? $large->(@_) : $load->(@_) };
PSGI
    my $memory = sub { anonymous($server->pid) };
    my $before = $memory->();
    my @crowd  = map { ask($server, '/stream') } 1 .. 40;
    my $held   = sub {
        my $status = $operator->status;
        !$status->{queue}{depth} && !grep { $_->{state} eq 'busy' } @{$status->{workers}{list}};
    };
    ok $server->wait_until($held, 60), 'no worker is busy with them';
    my $spooled = $operator->status->{spool}{bytes};
    cmp_ok $spooled, '>', 40 * 4_000_000, 'they are in files';
    like + ($operator->ask('status'))[1], qr/^spool +\d+\.\dM of responses to slow readers$/m, 'and the status says so';
    my $load = Howdah::Test::Load->start($server, connections => 8, requests => 2000);
    for (1 .. 10) { sip($_, 128) for @crowd; sleep 0.1 }
    my $result = $load->finish;
    is_deeply [@$result{qw(status problems)}], [{200 => 2000}, []], 'others are served beside them';
    cmp_ok $memory->() - $before, '<', 48, 'the front keeps little of them in memory';
    is md5_hex($crowd[0]->response->{body}), $whole, 'one that reads on has all of it';
    close $_->socket for @crowd;
    ok $server->wait_until(sub { $operator->status->{spool}{bytes} == 0 }), 'when they are gone, so are the files';
    my $files = sub {
        grep { / \(deleted\)$/ && !/memfd/ } map { readlink($_) // '' } glob '/proc/' . $server->pid . '/fd/*';
    };
    ok $server->wait_until(sub { !$files->() }), 'all of them';
};

subtest '--min-send-rate, after a minute of grace' => sub {
    my $operator = Howdah::Test::Operator->new;
    my @limits   = qw(--workers 2 --write-timeout 0 --min-send-rate 100k --response-spool 0 --response-buffer 64k);
    my $server   = Howdah::Test::Server->start(file => 't/apps/large.psgi', options => [@limits, $operator->options]);
    my $start    = time;
    my ($trickling, $quick) = map { ask($server, '/array') } 1 .. 2;
    my %end;
    while (time - $start < 90 && !$end{trickling}) {
        sip($trickling, 128);
        $end{trickling} //= time - $start if is_reset($trickling);
        sip($quick, 60_000) if length $quick->{input} < 11_000_000;
        sleep 0.1;
    }
    cmp_ok $end{trickling}, '>', 59.9, 'not before its time';
    cmp_ok $end{trickling}, '<', 85, 'but soon after it';
    is md5_hex($quick->response->{body}), $whole, 'one that is just quick enough has all of it';
    is ask($server, '/hello')->response->{status}, 200, 'the workers are free';
    is_deeply [map { $_->{state} } @{$operator->status->{workers}{list}}], ['idle', 'idle'];
};

# Where nobody is too slow, whoever waits for them waits for ever.
my $hints = <<'PSGI';
my $link = '</' . 'x' x 8000 . '>; rel=preload';
sub {
    my $env = shift;
    return [200, [], ['x' x 400_000]] if $env->{PATH_INFO} eq '/large';
    return [200, [], ['ok']]          if $env->{PATH_INFO} eq '/';
    $env->{'psgix.informational'}->(103, [Link => $link]) for 1 .. $env->{QUERY_STRING};
    print STDERR "hinted\n" if $env->{PATH_INFO} eq '/told';
    return [200, [], ['hinted']];
};
PSGI
my @patient = ('--workers', 2, '--write-timeout', 0, '--min-send-rate', 0);

subtest 'early hints that a crowd does not read' => sub {
    my $operator = Howdah::Test::Operator->new;
    my $server   = Howdah::Test::Server->start(options => [@patient, $operator->options], app => $hints);
    my @crowd    = map { Howdah::Test::Client->new($server) } 1 .. 4;
    for (@crowd) {
        setsockopt $_->socket, SOL_SOCKET, SO_RCVBUF, 4096 if $_ != $crowd[0];
        $_->write("GET /hints?2 HTTP/1.1\r\nHost: x\r\n\r\n" x 1000);
    }
    my $wait = sub { $operator->status->{connections}{by_state}{writing} == @crowd };
    ok $server->wait_until($wait, 60), 'each has as much as it takes, and no worker waits for it';
    is ask($server, '/')->response->{status}, 200, 'others are served' for 1 .. 4;
    my %seen;
    while (($seen{200} // 0) < 1000) {
        my $response = $crowd[0]->response;
        $seen{$response->{status} // $response->{error}}++;
        last if $response->{error} || $response->{status} == 200 && $response->{body} ne 'hinted';
    }
    my $hinted = delete $seen{103};
    is_deeply \%seen, {200 => 1000}, 'one that reads on has all that it has asked for';
    ok $hinted > 10 && $hinted <= 2000, 'and hints';
};

subtest 'early hints on streams of a client that reads nothing' => sub {
    my $server = Howdah::Test::Server->start(options => \@patient, app => $hints);
    my $client = Howdah::Test::Frames->new($server, settings => {4 => 1 << 20});
    $client->send('WINDOW_UPDATE', 0, 0, pack 'N', 1 << 28);
    $client->request(2 * $_ - 1, '/large') for 1 .. 25;
    $client->request(2 * $_ - 1, '/told?2') for 26 .. 31;
    ok $server->wait_for_log(qr/(?:hinted.*){6}/s, 60), 'no worker waits for it';
    is ask($server, '/')->response->{status}, 200, 'others are served' for 1 .. 4;
    my @heads = map { $client->response(2 * $_ - 1)->{heads} } 26 .. 31;
    is_deeply [map { $$_[0] } @heads], [(103) x 6], 'when it reads on it has hints';
    is_deeply [map { $$_[-1] } @heads], [(200) x 6], 'and all that it has asked for';
};

done_testing;
