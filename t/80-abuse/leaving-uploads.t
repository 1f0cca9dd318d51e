# Clients that leave while their upload is being worked on: its memory is not given to another request before the worker
# has let go of it.
use strict;
use warnings;
use lib 't/lib';

use Digest::MD5 qw(md5_hex);
use Howdah::Test::Client;
use Howdah::Test::Server;
use Test::More;

my $server = Howdah::Test::Server->start(options => ['--workers', 4], app => <<'PSGI');
use Digest::MD5 qw(md5_hex);
sub {
    my $env = shift;
    my $slow = $env->{PATH_INFO} eq '/slow';
    print STDERR "begun $env->{CONTENT_LENGTH}\n" if $slow;
    select undef, undef, undef, 0.7 if $slow;
    my $body = '';
    1 while $env->{'psgi.input'}->read($body, 65536, length $body);
    print STDERR 'slow ', md5_hex($body), "\n" if $slow;
    return [200, [], [md5_hex($body)]];
};
PSGI

sub post {
    my ($path, $body) = @_;
    my $client = Howdah::Test::Client->new($server);
    my $length = length $body;
    $client->write("POST $path HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: $length\r\n\r\n$body");
    return $client;
}

# In the slot, beside it, and in a file.
for my $size (50_000, 500_000, 2_000_000) {
    my ($mine, $other) = ('m' x $size, 'o' x $size);
    my @leaving = map { post('/slow', $mine) } 1 .. 3;
    ok $server->wait_for_log(qr/(?:begun $size.*){3}/s), "$size bytes: three workers have begun";
    close $_->socket for @leaving;
    my $wrong = grep { post('/', $other)->response->{body} ne md5_hex($other) } 1 .. 60;
    is $wrong, 0, "$size bytes: those who come later have their own";
    my $seen = md5_hex($mine);
    ok $server->wait_for_log(qr/(?:slow $seen.*){3}/s), 'and those who left had theirs to the end';
}

done_testing;
