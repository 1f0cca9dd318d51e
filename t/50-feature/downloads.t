# Large responses to clients that are now quick, now slow: the ring, the front's buffer and the socket fill up and empty
# in turn, and no wake-up among them is lost. A lost one shows as a download that never ends.
use strict;
use warnings;
use lib 't/lib';

use Digest::MD5 qw(md5_hex);
use Howdah::Test::Client;
use Howdah::Test::Server;
use IO::Select;
use Test::More;
use Time::HiRes qw(sleep);

my $size   = 8 << 20;
my $server = Howdah::Test::Server->start(options => ['--workers', 3], app => <<"PSGI");
    use File::Temp;
    my \$block = 'm' x (1 << 20);
    my \$file = File::Temp->new;
    print {\$file} \$block for 1 .. $size >> 20;
    \$file->flush;
    sub {
        my \$path = \$_[0]{PATH_INFO};
        if (\$path eq '/file') { open my \$in, '<', "\$file" or die; return [200, [], \$in] }
        return [200, [], [(\$block) x ($size >> 20)]] if \$path eq '/array';
        return sub {
            my \$writer = \$_[0]->([200, \$path eq '/given' ? ['Content-Length' => $size] : []]);
            \$writer->write(\$block) for 1 .. $size >> 20;
            \$writer->close;
        };
    };
PSGI
my $whole = md5_hex('m' x $size);

sub ask {
    my ($path, $version) = @_;
    my $client = Howdah::Test::Client->new($server);
    $client->write("GET $path HTTP/$version\r\nHost: x\r\nConnection: close\r\n\r\n");
    return $client;
}

for my $path ('/stream', '/given', '/array', '/file') {
    for my $version ('1.1', '1.0') {
        my $wrong = grep { md5_hex(ask($path, $version)->response->{body}) ne $whole } 1 .. 15;
        is $wrong, 0, "$path by HTTP/$version, read at once";
    }

    # Pauses of all lengths, so that each of the buffers is the one that is full.
    my @clients = map { ask($path, '1.1') } 1 .. 6;
    for my $pause (0.001, 0.02, 0.1, 0.3) {
        sleep $pause;
        for my $client (grep { IO::Select->new($_->socket)->can_read(0) } @clients) {
            sysread $client->socket, $client->{input}, 300_000, length $client->{input};
        }
    }
    is scalar(grep { md5_hex($_->response->{body}) ne $whole } @clients), 0, "$path, read by fits and starts";
}

done_testing;
