# A worker that is stopped in the midst of a step, by a signal or a debugger (gdb, gcore), has damaged nothing, however long
# that takes: nobody is killed for it, others are served meanwhile, and its client gets the rest once it goes on.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Server;
use Test::More;
use Time::HiRes qw(sleep);

my $server = Howdah::Test::Server->start(file => 't/apps/scribble.psgi', options => ['--workers', 2]);
my @before = sort $server->workers;

# Stops where the words that it has written and their seal do not fit each other, as between two of its stores.
my $client = Howdah::Test::Client->new($server);
my $code   = <<'CODE';
sub {
    my $writer  = $_[0]->([200, ['X-Worker' => $$]]);
    my $segment = Howdah::Test::Segment->new;
    my $seal    = $segment->control($segment->slot_of(Howdah::XS::index())) + 56;
    $writer->write('before, ');
    my ($right) = $segment->words($seal, 1);
    $segment->write($seal, ~$right);
    kill STOP => $$;
    $segment->write($seal, $right);
    $writer->write('behind');
    $writer->close;
}
CODE
$client->write(sprintf "POST /app HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", length $code, $code);
ok $server->wait_until(\&has_stopped_one), 'a worker is stopped';

for (1 .. 15) {
    my $other    = Howdah::Test::Client->asking($server, '/1-0');
    my $response = $other->response;
    is "$response->{status} $response->{body}", '200 1-0 0', 'the other one serves' or last;
    sleep 0.1;
}
is_deeply [sort $server->workers], \@before, 'no worker is replaced';
kill CONT => @before;
my $response = $client->response;
is "$response->{status} $response->{body}", '200 before, behind', 'the client has its response';
unlike $server->log, qr/written over shared memory/, 'and the log blames nobody';
is $server->stop, 0;

sub is_stopped {
    open my $in, '<', "/proc/$_[0]/stat" or return 0;
    return (<$in> // '') =~ /\) T /;
}

sub has_stopped_one {
    return scalar grep { is_stopped($_) } @before;
}

done_testing;
