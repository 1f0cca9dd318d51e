# A body in an extent is read where it lies, and its memory is the next request's afterwards: whoever can still read it by
# then has a copy of his own, and nobody ever sees what belongs to another request.
use strict;
use warnings;
use lib 't/lib';

use Digest::MD5 qw(md5_hex);
use File::Temp ();
use Howdah::Test::Client;
use Howdah::Test::Server;
use Test::More;
use Time::HiRes qw(sleep);

my $dir    = File::Temp->newdir;
my $server = Howdah::Test::Server->start(options => ['--workers', 1], env => {TEST_DIR => "$dir"}, app => <<'PSGI');
use Digest::MD5 qw(md5_hex);
my %kept;
{
    package Witness;
    sub DESTROY { my $in = shift->{input}; seek $in, 0, 0; local $/; $kept{witness} = <$in> }
}
sub all   { my $in = shift; seek $in, 0, 0; local $/; scalar(<$in>) // '' }
sub note  { open my $out, '>', "$ENV{TEST_DIR}/$_[0].new"; print $out $_[1]; close $out; rename "$ENV{TEST_DIR}/$_[0].new", "$ENV{TEST_DIR}/$_[0]" }
sub reply { [200, [], [@_]] }
my %do = (
    md5     => sub { reply(md5_hex(all($_[0]{'psgi.input'}))) },
    part    => sub { read $_[0]{'psgi.input'}, my $some, 10; reply($some) },
    handle  => sub { $kept{handle} = $_[0]{'psgi.input'}; reply('kept') },
    env     => sub { $kept{env} = $_[0]; reply('kept') },
    copy    => sub { open $kept{copy}, '<&', $_[0]{'psgi.input'} or die $!; reply('kept') },
    share   => sub { open $kept{share}, '<&=', $_[0]{'psgi.input'} or die $!; reply('kept') },
    closure => sub { my $env = shift; $kept{closure} = sub { all($env->{'psgi.input'}) }; reply('kept') },
    cleanup => sub {
        my $env = shift;
        push @{$env->{'psgix.cleanup.handlers'}}, sub { select undef, undef, undef, 0.3; note('cleanup', md5_hex(all($_[0]{'psgi.input'}))) };
        reply('later');
    },
    delayed => sub {
        my $env = shift;
        sub {
            my $writer = shift->([200, []]);
            $writer->write('begun');
            $writer->close;
            select undef, undef, undef, 0.3;
            note('delayed', md5_hex(all($env->{'psgi.input'})));
        };
    },
    child => sub {
        my $env = shift;
        defined(my $pid = fork) or die $!;
        return reply('forked') if $pid;
        until (-e "$ENV{TEST_DIR}/go") { select undef, undef, undef, 0.02 }
        note('child', md5_hex(all($env->{'psgi.input'})));
        require POSIX;
        POSIX::_exit(0);
    },
    witness => sub { $_[0]{'test.witness'} = bless {input => $_[0]{'psgi.input'}}, 'Witness'; reply('seen') },
    seen    => sub { reply(md5_hex($kept{witness} // '')) },
    dies    => sub { $kept{dies} = $_[0]{'psgi.input'}; die "on purpose\n" },
    was     => sub {
        my ($name) = $_[0]{QUERY_STRING};
        my $kept = $kept{$name};
        reply(md5_hex(ref $kept eq 'CODE' ? $kept->() : ref $kept eq 'HASH' ? all($kept->{'psgi.input'}) : all($kept)));
    },
);
sub { my $env = shift; $do{substr $env->{PATH_INFO}, 1}->($env) };
PSGI

sub post {
    my ($path, $body) = @_;
    my $head = "POST $path HTTP/1.1\r\nHost: x\r\nContent-Length: " . length($body) . "\r\nConnection: close\r\n\r\n";
    return Howdah::Test::Client->ask($server, $head . $body)->{body};
}

# A body of its own for each request; the extent of the last one is the first to be used again.
sub body { my $letter = shift; $letter x 199_999 . "\n" }

sub wait_for {
    my $name = shift;
    for (1 .. 500) {
        if (open my $in, '<', "$dir/$name") { return scalar <$in> }
        sleep 0.02;
    }
    return 'nothing came';
}

for my $way (qw(handle env copy share closure)) {
    is(post("/$way", body('a')), 'kept', "$way: kept beyond its request");
    is(post('/md5', body($_)), md5_hex(body($_)), "... another body, $_") for 'b' .. 'c';
    is(post("/was?$way", body('d')), md5_hex(body('a')), '... and it has the old one still');
}

post('/dies', body('e'));
post('/md5', body('f'));
is(post('/was?dies', body('g')), md5_hex(body('e')), 'kept by an application that died');

is(post('/part', body('h')), 'h' x 10, 'read in part');
is(post('/md5', body('i')), md5_hex(body('i')), '... which the next one does not notice');

for my $way (qw(cleanup delayed)) {
    post("/$way", body('k'));
    my @others = map { post('/md5', body($_)) } 'l' .. 'n';
    is(wait_for($way), md5_hex(body('k')), "$way: read after the client has its response");
    is("@others", join(' ', map { md5_hex(body($_)) } 'l' .. 'n'), '... and by nobody else');
}

is(post('/child', body('o')), 'forked', 'a child of the application');
post('/md5', body('p'));
open my $go, '>', "$dir/go" or die "go: $!";
close $go;
is(wait_for('child'), md5_hex(body('o')), '... reads what was there when it was forked');

post('/witness', body('q'));
my $seen = post('/seen', body('r'));
ok($seen eq md5_hex(body('q')) || $seen eq md5_hex(''), 'a destructor reads its own request, or nothing');

# Lengths around those of the front's buffers, in pieces of several lengths, with the next request right behind the body.
for my $length (65_537, 131_071, 131_072, 131_073, 262_144, 400_000, 1_048_575, 1_048_576, 1_048_577) {
    my $text = join '', map { pack 'N', $_ } 0 .. $length / 4;
    substr $text, $length, length($text), '';
    my $next = "GET /md5 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    for my $piece (70_000, 2_000_000) {
        my $client = Howdah::Test::Client->new($server);
        my $all    = "POST /md5 HTTP/1.1\r\nHost: x\r\nContent-Length: $length\r\n\r\n$text$next";
        while (length $all) {
            $client->write(substr $all, 0, $piece, q());
            sleep 0.002;
        }
        my @bodies   = map { $client->response->{body} } 1, 2;
        my $expected = join ' ', md5_hex($text), md5_hex('');
        is("@bodies", $expected, "$length bytes in pieces of $piece, and a request behind them");
    }
}

# The same of unknown length: in the slot, in an extent, and in a file when it outgrows that.
my $CHUNKED = "POST /md5 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";

sub chunks {
    my ($text, $size) = @_;
    return join '', map { sprintf "%x\r\n%s\r\n", length, $_ } unpack "(a$size)*", $text;
}

for my $length (60_000, 65_537, 400_000, 1_048_576, 1_048_577, 2_500_000) {
    my $text = substr join('', map { pack 'N', $_ } 0 .. $length / 4), 0, $length;
    my $next = "GET /md5 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    for my $size (7_000, 200_000) {
        my $client = Howdah::Test::Client->new($server);
        $client->write($CHUNKED . chunks($text, $size) . "0\r\n\r\n" . $next);
        my @bodies   = map { $client->response->{body} } 1, 2;
        my $expected = join ' ', md5_hex($text), md5_hex('');
        is("@bodies", $expected, "$length bytes in chunks of $size, and a request behind them");
    }
}

# There are sixteen extents; each comes back when its client breaks off, or sends what is no chunk. Where files have no place,
# a body without an extent is refused.
my $files = "$dir/files";
mkdir $files or die $!;
my $narrow = Howdah::Test::Server->start(options => ['--spool-dir', $files], app => 'sub { [200, [], ["whole"]] }');
rmdir $files or die $!;
my ($part, $rest) = (chunks(body('s'), 10_000), chunks(body('t'), 10_000));
my $status = sub { Howdah::Test::Client->ask($narrow, "$CHUNKED$part$_[0]0\r\n\r\n")->{status} };
for my $broken (undef, 'no chunk') {
    for (1 .. 40) {
        my $client = Howdah::Test::Client->new($narrow);
        $client->write($CHUNKED . $part . ($broken // ''));
        $client->response if $broken;
    }
    my $has_room = $narrow->wait_until(sub { $status->($rest) == 200 });
    ok($has_room, 'there is an extent after 40 that were broken off by ' . ($broken // 'the client'));
}
is($status->($rest x 5), 503, 'none is large enough for more than a MiB');

done_testing;
