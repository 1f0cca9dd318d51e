# /health answers at once whatever the status page waits for: measuring memory may take long, for instance while the
# launcher, which does that for a confined front, is stopped. Nor do the page, howdah status and howdah top wait for it.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Operator;
use Howdah::Test::Server;
use JSON::PP qw(decode_json);
use Test::More;
use Time::HiRes qw(time);

# What nobody waits for would take twenty seconds; a busy machine may need some for anything.
use constant LONG => 8;

my $operator = Howdah::Test::Operator->new;
my @options  = (qw(--workers 4 --status-path /server-status --health-path /health --ready-path /ready));
my $server   = Howdah::Test::Server->start(
    app     => 'sub { [200, [], ["app"]] }',
    options => [@options, $operator->options]
);

sub ask {
    my $client = Howdah::Test::Client->new($server);
    $client->write("GET $_[0] HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    return $client;
}

sub json { return decode_json(ask('/server-status?json')->response->{body}) }

my $launcher;
END { local $?; kill CONT => $launcher if $launcher }

# The process that measures for the front.
sub launcher {
    for my $file (glob "/proc/[0-9]*/cmdline") {
        open my $in, '<', $file or next;
        next if (<$in> // '') !~ /^howdah:[\0 ]launcher/;
        my ($pid) = $file =~ /(\d+)/;
        open my $stat, '<', "/proc/$pid/stat" or next;
        return $pid if <$stat> =~ /\) \S ${\$server->pid} /;
    }
    return;
}

ok $server->wait_until(sub {
    4 == grep { $_->{memory} } @{json()->{workers}{list}};
    }),
    'memory is measured';

SKIP: {
    $launcher = launcher() or skip 'the front is not confined here', 7;
    kill STOP => $launcher;
    sleep 4;    # what is known is not fresh any more
    my $start = time;
    my @pages = map { ask('/server-status?json') } 1 .. 5;
    is ask($_)->response->{body}, "ready\n", $_ for qw(/health /ready);
    is ask('/')->response->{body}, 'app', 'the application';
    is_deeply [map { $_->response->{status} } @pages], [(200) x 5], 'the page does without';
    is(($operator->ask('status'))[0], 0, 'howdah status');
    is(($operator->ask('top', '--once'))[0], 0, 'howdah top');
    cmp_ok time - $start, '<', LONG, 'nobody waited for the launcher';
    is scalar(grep { $_->{memory} } @{json()->{workers}{list}}), 4, 'what was known is shown';
}

kill CONT => $launcher if $launcher;
is $server->stop, 0;
done_testing;
