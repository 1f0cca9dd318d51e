# psgi.input is a seekable file handle, whatever way the body came: none, in the slot, or spooled to a file.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Server;
use Test::More;

my $server = Howdah::Test::Server->start(options => ['--workers', 1], app => <<'PSGI');
use Digest::MD5 ();
my $kept;
my %do = (
    length => sub { my ($in, $env) = @_; local $/; length(<$in> // '') . " of $env->{CONTENT_LENGTH}" },
    method => sub { my $in = shift; my $got = 'ab'; my $n = $in->read($got, 3, 2); "$n $got" },
    offset => sub { my $in = shift; my $got = 'abcdef'; my $n = read $in, $got, 2, 3; "$n $got" },
    seek   => sub {
        my $in = shift;
        my @seen = (tell $in, scalar <$in>, $in->seek(2, 0), $in->tell, $in->getline);
        seek $in, -1, 2;
        join '|', map { $_ // 'undef' } @seen, scalar(<$in>), $in->eof ? 'eof' : 'more';
    },
    stdin  => sub { local *STDIN = shift; my $line = <STDIN>; seek STDIN, 0, 0; read STDIN, my $again, 3; "$line|$again" },
    utf8   => sub { my $in = shift; binmode $in, ':utf8'; local $/; length <$in> },
    close  => sub { my $in = shift; close $in; 'closed' },
    keep   => sub { $kept = shift; 'kept' },
    share  => sub { open $kept, '<&=', shift or die $!; 'shared' },
    kept   => sub { seek $kept, 0, 0; my $old = <$kept>; my $in = shift; my $new = <$in>; "$old|$new" },
    md5    => sub { my $in = shift; Digest::MD5->new->addfile($in)->hexdigest },
    slurp  => sub { local $/; readline(shift) // 'undef' },
    lines  => sub { my $in = shift; 1 while <$in>; $. },
);
sub {
    my $env = shift;
    my ($name) = $env->{PATH_INFO} =~ m{^/(\w+)};
    [200, [], [$do{$name}->($env->{'psgi.input'}, $env)]];
};
PSGI

sub ask {
    my ($name, $body) = @_;
    my $length = defined $body ? 'Content-Length: ' . length($body) . "\r\n" : '';
    my $head   = "POST /$name HTTP/1.1\r\nHost: x\r\n${length}Connection: close\r\n\r\n";
    return Howdah::Test::Client->ask($server, $head . ($body // ''))->{body};
}

my $large = join '', map { "line $_\n" } 1 .. 20_000;
my @cases = (
    [length => "a\0b\r\n", '5 of 5', 'bytes as they are'],
    [length => $large, length($large) . ' of ' . length $large, 'a large body'],
    [method => 'xyz123', '3 abxyz', 'read with offset, as a method'],
    [offset => 'xyz123', '2 abcxy', 'read with offset, the function'],
    [seek   => "one\ntwo", "0|one\n|1|2|e\n|o|eof", 'tell, getline, seek and eof'],
    [stdin  => 'request', 'request|req', 'in place of STDIN, as CGI programs want it'],
    [utf8   => "\xc3\xa4", '1', 'with a layer'],
    [length => "\xc3\xa4", '2 of 2', 'which the next request does not have'],
    [close  => 'x', 'closed', 'closed'],
    [length => 'next', '4 of 4', 'and open again in the next request'],
    [slurp  => undef, '', 'no body, read at one go'],
    [slurp  => undef, '', 'and again'],
    [lines  => "a\nb\nc\n", '3', 'line numbers'],
    [lines  => "a\n", '1', 'begin anew'],
    [keep   => 'first', 'kept', 'kept beyond the request'],
    [kept   => 'second', 'first|second', 'it has the old body still'],
    [share  => 'first', 'shared', 'another handle on the same'],
    [kept   => 'second', 'first|second', 'has the old body still'],
);
is(ask($_->[0], $_->[1]), $_->[2], $_->[3]) for @cases;

is(ask('seek'), '0|undef|1|2|undef|undef|eof', 'without a body there is nothing to read');
is(ask('seek', $large), "0|line 1\n|1|2|ne 1\n|\n|eof", 'a spooled body is seekable too');
require Digest::MD5;
is(ask('md5', $large), Digest::MD5::md5_hex($large), 'and whole');

done_testing;
