# --cgi with mode=exec: bodies of all sizes reach standard input whole and end there, and neither a large upload nor a client
# who takes the response slowly costs memory.
use strict;
use warnings;
use lib 't/lib';

use Digest::MD5 qw(md5_hex);
use Howdah::Test::Client;
use Howdah::Test::Scripts;
use Test::More;
use Time::HiRes qw(sleep);

my $scripts = Howdah::Test::Scripts->new(
    'digest.pl' => <<"PERL",
#!$^X
use Digest::MD5;
binmode STDIN;
my \$digest = Digest::MD5->new->addfile(*STDIN)->hexdigest;
print "Content-Type: text/plain\\n\\n", join ' ', \$digest, \$ENV{CONTENT_LENGTH} // '-', eof(STDIN) ? 'end' : 'more';
PERL
    'deaf.cgi'      => qq{printf 'Content-Type: text/plain\\n\\nnot read'\n},
    'prints-by.cgi' =>
        qq{printf 'Content-Type: text/plain\\n\\n'; (head -c 12000000 /dev/zero | tr '\\0' z) & exit 0\n},
    'goes-on.cgi' =>
        qq{printf 'Content-Type: text/plain\\n\\n'; (for i in 1 2 3 4 5 6; do sleep 0.5; echo \$i; done) & exit 0\n},
    'holds.cgi'  => qq{printf 'Content-Type: text/plain\\n\\nall'; sleep 600 & echo \$\$ >held; exit 0\n},
    'endless.pl' => <<"PERL",
#!$^X
\$SIG{TERM} = sub { open my \$out, '>', 'told'; print {\$out} \$count; exit };
print "Content-Type: text/plain\\n\\n";
while (1) { print 'z' x 65_536; \$count += 65_536; open my \$out, '>', 'count'; print {\$out} \$count }
PERL
);
my $server = $scripts->serve('exec', ['workers=4'], '--max-body-size', '2G', '--response-spool', '0');

sub post {
    my ($path, $body, @fields) = @_;
    my $head = join '', map { "$_\r\n" } "POST /c/$path HTTP/1.1", 'Host: x', @fields;
    return Howdah::Test::Client->ask($server, "$head\r\n$body");
}

for my $length (0, 1, 100, 65_535, 65_536, 65_537, 200_000, 1_048_576, 1_048_577, 5_000_000) {
    my $body     = join '', map { chr(($_ * 7 + $length) % 256) } 1 .. ($length < 1000 ? $length : 1000);
    my $whole    = substr $body x (1 + $length / 1000), 0, $length;
    my $response = post('digest.pl', $whole, "Content-Length: $length");
    is $response->{body}, md5_hex($whole) . " $length end", "$length bytes";
}
my $chunked = post('digest.pl', "5\r\nhello\r\n0\r\n\r\n", 'Transfer-Encoding: chunked');
is $chunked->{body}, md5_hex('hello') . ' 5 end', 'a chunked body has its length (RFC 3875 4.1.2)';
is post('deaf.cgi', 'x' x 3_000_000, 'Content-Length: 3000000')->{body}, 'not read', 'a body that nobody reads';

# What the client takes of the time is not that of those who follow.
subtest 'a program that a script prints by has the last of it, however slow the client is' => sub {
    my $client = Howdah::Test::Client->new($server);
    $client->write("GET /c/prints-by.cgi HTTP/1.0\r\n\r\n");
    sleep 3;
    my $response = $client->response;
    is $response->{status}, 200;
    is length $response->{body}, 12_000_000, 'all of it';
};

subtest 'it has it however long that takes, as long as it goes on' => sub {
    my $response = $scripts->get($server, 'goes-on.cgi');
    is $response->{body}, join('', map { "$_\n" } 1 .. 6), 'all of it';
    unlike $server->log, qr/still has its output/;

    is $scripts->get($server, 'holds.cgi')->{body}, 'all', 'who says nothing keeps no client for long';
    ok $server->wait_for_log(qr{/holds\.cgi: a program that it has started still has its output}),
        '... and the log tells of it';
    kill KILL => -$scripts->read('held');
};

subtest 'a large upload' => sub {
    my ($host) = $server->processes('cgi-host');
    my ($size, $piece) = (300 << 20, 'u' x (1 << 20));
    my $client = Howdah::Test::Client->new($server);
    $client->write("POST /c/digest.pl HTTP/1.1\r\nHost: x\r\nContent-Length: $size\r\n\r\n");
    my $digest = Digest::MD5->new;
    for (1 .. 300) { $client->write($piece); $digest->add($piece) }
    is $client->response(patience => 60)->{body}, $digest->hexdigest . " $size end", 'arrives';
    cmp_ok peak($_), '<', 100 << 10, '... and is never in memory' for $host, $server->pid;
};

subtest 'a client who does not read' => sub {
    my $client = Howdah::Test::Client->new($server);
    $client->write("GET /c/endless.pl HTTP/1.0\r\n\r\n");
    my ($last, $same) = (-1, 0);
    my $stands = $server->wait_until(sub {
        my $count = $scripts->read('count') || 0;
        $same = $count && $count == $last ? $same + 1 : 0;
        $last = $count;
        sleep 0.1;
        $same >= 10;
    });
    ok $stands, 'makes the script wait';
    cmp_ok $last, '<', 40 << 20, '... after what buffers hold';
    close $client->socket;
    ok $server->wait_until(sub { defined $scripts->read('told') }), 'when he leaves, it gets TERM';
};

is $server->stop, 0;

# VmHWM in KiB, less the shared memory, which is the segment and its requests.
sub peak {
    my $pid = shift;
    open my $in, '<', "/proc/$pid/status" or die "/proc/$pid/status: $!";
    my %value = map { /^(\w+):\s+(\d+) kB/ ? ($1 => $2) : () } <$in>;
    return $value{VmHWM} - $value{RssShmem};
}

done_testing;
