# Response bodies that are handles and objects, and streaming ones: sent whole, closed always.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Operator;
use Howdah::Test::Server;
use Test::More;
use Time::HiRes qw(time);

my $app = <<'PSGI';
use IO::File ();
my ($closed, $kept) = (0);
{
    package Body;
    sub new { my $class = shift; bless [@_], $class }
    sub getline { my $next = shift @{$_[0]}; ref $next ? $next->() : $next }
    sub close { $closed++ }
    package Lines; require Tie::Scalar; our @ISA = 'Tie::StdScalar';
    sub FETCH { shift @{${$_[0]}} }
    sub getline : lvalue { ${$_[0]{tied}} }
    package Filter; our @ISA = 'IO::File';
    sub getline { my $line = shift->SUPER::getline; defined $line ? uc $line : undef }
}
sub temporary { my $file = IO::File->new_tmpfile; print $file @_; seek $file, 0, 0; $file }
sub streaming { my @parts = @_; sub { my $w = shift->([200, []]); $w->write($_) for @parts; $w->close } }
my %do = (
    array    => sub { [200, [], ['a', '', 'b', undef, 'c']] },
    emptied  => sub { [200, [], $_[0]{REQUEST_METHOD} eq 'HEAD' ? [] : ['text']] },
    emptier  => sub { [200, [], $_[0]{REQUEST_METHOD} eq 'HEAD' ? [''] : ['text']] },
    told     => sub { [200, ['Content-Length' => 4], $_[0]{REQUEST_METHOD} eq 'HEAD' ? [] : ['text']] },
    latin    => sub { my $text = "caf\xe9"; utf8::upgrade $text; [200, [], [$text]] },
    large    => sub { [200, [], [map { $_ x 100_000 } 'a' .. 'e']] },
    small    => sub { my $file = temporary("first\nsecond\n"); <$file>; [200, [], $file] },
    file     => sub { my $file = temporary('x' x 10, 'y' x 500_000); seek $file, 10, 0; [200, [], $file] },
    part     => sub { [200, ['Content-Length' => 100_000], temporary('z' x 100_000, 'no')] },
    moved    => sub { my $file = temporary('k' x 300_000); sub { shift->([200, [], $file]); seek $file, 0, 2 } },
    memory   => sub { open my $in, '<', \"in\nmemory\n"; [200, [], $in] },
    layer    => sub { my $file = temporary("a\r\nb\r\n"); binmode $file, ':crlf'; [200, [], $file] },
    filter   => sub { my $file = temporary("shout\n"); bless $file, 'Filter'; [200, [], $file] },
    pipe     => sub { open my $in, '-|', 'echo one; sleep 1; echo two'; [200, [], $in] },
    object   => sub { [200, [], Body->new("a\n", '', "b\n")] },
    tied     => sub { tie my $line, 'Lines', ["a\n", "b\n"]; [200, [], bless {tied => \$line}, 'Lines'] },
    nothing  => sub { [200, [], Body->new] },
    slow     => sub { [200, [], Body->new('now', sub { sleep 1; 'later' })] },
    breaks   => sub { [200, [], Body->new('begun', sub { die "in getline\n" })] },
    fails    => sub { [200, [], Body->new(sub { die "first getline\n" })] },
    closed   => sub { my $was = $closed; $closed = 0; [200, [], [$was]] },
    delayed  => sub { sub { shift->([200, [], ['delayed']]) } },
    goes_on  => sub { sub { shift->([200, [], ['all of it']]); die "behind the response\n" } },
    exits    => sub { sub { shift->([200, [], ['all of it']]); exit } },
    stream   => sub { streaming('one', '', 'two') },
    torrent  => sub { streaming(map { $_ x 50_000 } 'a' .. 'z') },
    open     => sub { sub { $kept = shift->([200, []]); $kept->write('not closed') } },
    stale    => sub { eval { $kept->write('x') }; [200, [], [$@]] },
    dies     => sub { sub { my $w = shift->([200, []]); $w->write('begun'); die "in the stream\n" } },
    wide     => sub { sub { my $w = shift->([200, []]); $w->write("\x{263a}") } },
    twice    => sub { sub { my $r = shift; $r->([200, [], ['a']]); eval { $r->([200, [], ['b']]) } } },
    better   => sub {
        sub {
            my $respond = shift;
            open my $out, '>', '/dev/null';
            eval { $respond->([200, [], $out]) };
            open my $in, '<', \"second";
            $respond->([200, [], $in]);
        };
    },
    endless  => sub { open my $in, '<', '/dev/zero'; [200, ['Content-Length' => 5], $in] },
    lines    => sub { [200, ['Content-Length' => 5], Body->new((sub { 'x' x 1000 }) x 1e6)] },
    writes   => sub { sub { my $w = shift->([200, ['Content-Length' => 5]]); $w->write('x' x 1000) while 1 } },
    chunked  => sub { [200, ['Transfer-Encoding' => 'chunked'], ["5\r\nhel", "lo\r\n3;x=y\r\nabc\r\n", "0\r\n\r\n"]] },
    chunks   => sub { [200, ['Transfer-Encoding' => 'chunked'], temporary("3\r\nabc\r\n0\r\n\r\n")] },
    pieces   => sub {
        my $file = temporary("493e0\r\n", 'w' x 300_000, "\r\n0\r\n\r\n");
        [200, ['Transfer-Encoding' => 'chunked'], $file];
    },
);
sub { my $env = shift; $do{substr $env->{PATH_INFO}, 1}->($env) };
PSGI
my $operator = Howdah::Test::Operator->new;
my @options  = ('--workers', 1, '--response-buffer', '64k', $operator->options);
my $server   = Howdah::Test::Server->start(options => \@options, app => $app);

sub ask {
    my ($name, %how) = @_;
    my $method = $how{head} ? 'HEAD' : 'GET';
    return Howdah::Test::Client->ask($server, "$method /$name HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", %how);
}

my @cases = (
    [array   => 'abc', 'elements of an array, undefined ones empty'],
    [latin   => "caf\xe9", 'characters up to 255 are bytes'],
    [large   => join('', map { $_ x 100_000 } 'a' .. 'e'), 'more than the ring holds'],
    [small   => "second\n", 'a small file from where it stands'],
    [file    => 'y' x 500_000, 'a large file from where it stands'],
    [part    => 'z' x 100_000, 'a part of a file'],
    [moved   => 'k' x 300_000, 'a file whose handle the application goes on to use'],
    [memory  => "in\nmemory\n", 'an in-memory handle'],
    [layer   => "a\nb\n", 'a handle with a layer'],
    [filter  => "SHOUT\n", 'a handle with a getline of its own'],
    [object  => "a\nb\n", 'an object with getline'],
    [tied    => "a\nb\n", 'an object whose getline gives what is tied'],
    [nothing => '', 'an object with nothing'],
    [delayed => 'delayed', 'a delayed response'],
    [stream  => 'onetwo', 'a stream; an empty write does not end it'],
    [torrent => join('', map { $_ x 50_000 } 'a' .. 'z'), 'a stream larger than all buffers'],
    [open    => 'not closed', 'a stream that is not closed ends with the code'],
    [twice   => 'a', 'the first of two responses'],
    [better  => 'second', 'another response after one that was none'],
    [chunked => 'helloabc', 'a body in chunked coding already'],
    [chunks  => 'abc', '... which is a small file'],
    [pieces  => 'w' x 300_000, '... which is a large file'],
);
for my $case (@cases) {
    my ($name, $body, $what) = @$case;
    my $response = ask($name);
    ok($response->{body} eq $body && !$response->{error}, $what)
        or diag explain $response->{error} // $response->{head};
}
like(ask('stale')->{body}, qr/^the response has already ended at /, 'a writer kept beyond its response dies');

ask('closed');
ask($_) for qw(object nothing);
is(ask('closed')->{body}, 2, 'close is called');
my $broken = ask('breaks');
ok($broken->{error}, 'a getline that dies cuts the connection') or diag explain $broken;
is(ask('fails')->{status}, 500, 'the first getline that dies is a 500');
is(ask('closed')->{body}, 2, 'close is called after either');
is(ask('object', head => 1)->{body}, '', 'HEAD has no body');
is(ask('closed')->{body}, 1, 'and close is called');

# What an application or a middleware leaves out where the client asks for the head alone (RFC 9110 9.3.2).
my @asked = (
    [emptied => undef, 'no length for a body that was left out'],
    [emptier => undef, '... or that is nothing but empty'],
    [told    => 4, "the application's own length"],
    [array   => 3, 'the length of what is there'],
);
for my $case (@asked) {
    my ($name, $length, $what) = @$case;
    my $response = ask($name, head => 1);
    is(($response->{head} =~ /^Content-Length: (\d+)\r$/mi)[0], $length, "HEAD: $what") or diag $response->{head};
    is(ask($name)->{body}, $name eq 'array' ? 'abc' : 'text', '... and GET has the body');
}

for my $name (qw(dies wide)) {
    my $response = ask($name);
    ok($response->{error}, "a stream that ends badly is cut: $name") or diag explain $response;
}
ok($server->wait_for_log(qr{GET /dies: the application failed: in the stream$}m), 'and logged');

subtest 'none leaves anything behind' => sub {
    for my $name (grep { $_ ne 'open' } map { $_->[0] } @cases, ['breaks'], ['fails'], ['dies'], ['wide'], ['goes_on'])
    {
        ask($name) for 1 .. 40;
    }
    my @left = map { "$_->{route}: $_->{values}" } @{$operator->status->{pools}[0]{growth}};
    is "@left", '', 'of the values of any route';
};

for my $name (qw(goes_on exits)) {
    my $client = Howdah::Test::Client->new($server);
    $client->write("GET /$name HTTP/1.1\r\nHost: x\r\n\r\n" . "GET /delayed HTTP/1.1\r\nHost: x\r\n\r\n");
    is $client->response->{body}, 'all of it', "what was given whole before the code dies is whole: $name";
    is $client->response->{body}, 'delayed', '... and the connection goes on';
}
ok($server->wait_for_log(qr{GET /goes_on: the application failed: behind the response$}m), '... and the log has it');

for my $name (qw(endless lines writes)) {
    is length ask($name)->{body}, 5, "a body that goes on beyond its Content-Length is cut off there: $name";
    ok(
        $server->wait_for_log(
            qr{Content-Length 5 but a body of more than \d+ bytes to GET /$name; closed the connection}),
        '... and logged'
    );
}
is(ask('delayed')->{body}, 'delayed', '... and its worker is free');

for my $name (qw(slow pipe)) {
    my $client = Howdah::Test::Client->new($server);
    my $start  = time;
    $client->write("GET /$name HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    sysread $client->socket, my $first, 1000;
    sysread $client->socket, $first, 1000, length $first if $first !~ /now|one/;
    cmp_ok(time - $start, '<', 0.9, "what is at hand is sent at once: $name");
    like($first, qr/now|one/, '... and is the first part');
    1 while sysread $client->socket, $first, 1000;
}

done_testing;
