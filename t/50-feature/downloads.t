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
    use File::Basename qw(dirname);
    use File::Temp;
    my \$block = 'm' x (1 << 20);
    my \$file = File::Temp->new(DIR => dirname __FILE__);
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

# A file that a client takes slowly keeps no request from waiting for a worker: there are fewer slots than clients here. On a
# busy machine it takes a while until they all have connected, by TLS.
my $few = Howdah::Test::Server->start(options => [qw(--workers 1 --max-queue 4 --write-timeout 3m)], app => <<"PSGI");
    use File::Basename qw(dirname);
    use File::Temp;
    my \$file = File::Temp->new(DIR => dirname __FILE__);
    print {\$file} 'm' x $size;
    \$file->flush;
    sub {
        return [200, [], ['ok']] if \$_[0]{PATH_INFO} ne '/file';
        open my \$in, '<', "\$file" or die;
        return [200, [], \$in];
    };
PSGI
my @slow = map { Howdah::Test::Client->new($few) } 1 .. 75;
for my $client (@slow) {
    $client->write("GET /file HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    sysread $client->socket, $client->{input}, 16;
}
is +Howdah::Test::Client->ask($few, "GET / HTTP/1.0\r\n\r\n")->{body}, 'ok',
    'others are served beside 75 slow downloads';
is scalar(grep { md5_hex($_->response->{body}) ne $whole } @slow[0, 74]), 0, '... which are whole';

done_testing;
