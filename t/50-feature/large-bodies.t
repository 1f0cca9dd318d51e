# A worker that has the whole of a large body sends it by itself: the front lends it the connection behind the head. What
# that meets, be it the client, the worker or the server that changes meanwhile, is as with any response.
use strict;
use warnings;
use lib 't/lib';

use Digest::MD5 qw(md5_hex);
use Howdah::Test::Client;
use Howdah::Test::Operator;
use Howdah::Test::Server;
use IO::Select;
use Test::More;

# Bodies by path; what stands behind ? is a length. /gone says when it is through.
my $app = <<'PSGI';
package Howdah::Test::Tied { sub TIESCALAR { bless {}, $_[0] } sub FETCH { 't' x 300_000 } }
my $piece = join '', map { sprintf "%07d\n", $_ } 1 .. 125_000;
tie my $tied, 'Howdah::Test::Tied';
utf8::upgrade(my $wide = "\xe9" x 300_000);
my %body = (
    '/one'     => [$piece],
    '/pieces'  => [map { substr $piece, $_ * 100_000, 100_000 } 0 .. 9],
    '/many'    => [unpack '(a1000)*', $piece],
    '/mixed'   => [$tied, undef, $wide, $piece],
    '/magic'   => [$tied, $piece],
    '/wide'    => [$wide, $piece],
    '/brim'    => [map { substr $piece, $_ * 7813, 7813 } 0 .. 127],
    '/over'    => [map { substr $piece, $_ * 7752, 7752 } 0 .. 128],
    '/hollow'  => ['', '', $piece x 2, '', $piece, '', ''],
    '/tenfold' => [($piece) x 10],
    '/huge'    => [('h' x 1_000_000) x 100],
);
sub {
    my ($path, $length) = @{$_[0]}{qw(PATH_INFO QUERY_STRING)};
    return [200, [], ["hello from $$"]] if !$body{$path};
    push @{$_[0]{'psgix.cleanup.handlers'}}, sub { print STDERR "through\n" };
    return [$path eq '/one' && $length eq '304' ? 304 : 200, $length > 304 ? ['Content-Length', $length] : [], $body{$path}];
};
PSGI
my $piece = join '', map { sprintf "%07d\n", $_ } 1 .. 125_000;
my $hello = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";

sub start {
    my @options = @_;
    unshift @options, '--workers', 1 if !grep { $_ eq '--workers' } @options;
    return Howdah::Test::Server->start(app => $app, options => \@options);
}

sub ask {
    my ($server, $line, @rest) = @_;
    my $client = Howdah::Test::Client->new($server);
    $client->write(join '', "$line\r\nHost: x\r\n\r\n", @rest);
    return $client;
}

# Bytes that the memory shared with workers takes.
sub shared {
    my $server   = shift;
    my @segments = grep { (readlink($_) // '') =~ m{^/memfd:howdah \(deleted} } glob '/proc/' . $server->pid . '/fd/*';
    my $bytes    = 0;
    $bytes += 512 * (stat $_)[12] for @segments;
    return $bytes;
}

# Reads as fast as can be until so much has come, or all: how much it was.
sub gulp {
    my ($client, $length) = @_;
    my $read = 0;
    while (!$length || $read < $length) {
        my $got = sysread($client->socket, my $some, 1 << 20) or last;
        $read += $got;
    }
    return $read;
}

subtest 'every kind of body, with another request behind it' => sub {
    my $server = start('--access-log', '-', '--access-log-format', 'LOG %U%q %>s %B %X');
    my $mixed  = ('t' x 300_000) . ("\xe9" x 300_000) . $piece;
    for my $case (
        ['GET /one HTTP/1.1', 200, $piece],
        ['GET /pieces HTTP/1.1', 200, $piece],
        ['GET /many HTTP/1.1', 200, $piece],
        ['GET /mixed HTTP/1.1', 200, $mixed],
        ['GET /magic HTTP/1.1', 200, ('t' x 300_000) . $piece],
        ['GET /wide HTTP/1.1', 200, ("\xe9" x 300_000) . $piece],
        ['GET /brim HTTP/1.1', 200, $piece],
        ['GET /over HTTP/1.1', 200, $piece],
        ['GET /hollow HTTP/1.1', 200, $piece x 3],
        ['GET /tenfold HTTP/1.1', 200, $piece x 10],
        ['GET /one?1000000 HTTP/1.1', 200, $piece],
        ['GET /one?304 HTTP/1.1', 304, ''],
        ['HEAD /one HTTP/1.1', 200, ''],
        ["GET /one HTTP/1.0\r\nConnection: keep-alive", 200, $piece],
        )
    {
        my ($line, $status, $body) = @$case;
        my $client   = ask($server, $line, $hello);
        my $response = $client->response(head => scalar $line =~ /^HEAD/);
        is_deeply [@$response{qw(status error)}, md5_hex($response->{body})], [$status, '', md5_hex($body)], $line;
        like $client->response->{body}, qr/^hello/, "$line: the next one";
    }
    my $client = ask($server, 'GET /one HTTP/1.0');
    is md5_hex($client->response->{body}), md5_hex($piece), 'HTTP/1.0';
    ok $client->is_closed, '... which closes';
    is length ask($server, 'GET /one?999999 HTTP/1.1', $hello)->rest =~ s/.*?\r\n\r\n//sr, 999_999,
        'a body longer than it was said to be is cut, and the connection with it';
    is length ask($server, 'GET /one?1000001 HTTP/1.1', $hello)->rest =~ s/.*?\r\n\r\n//sr, 1_000_000,
        'one that is shorter ends with the connection';
    ok $server->wait_for_log(qr{LOG /one\?1000001 200 1000000 X}), 'the log has what was sent';
    my @log = $server->log =~ /^LOG (.*)$/mg;
    is_deeply [grep { $_ eq '/one 200 1000000 +' } @log], [('/one 200 1000000 +') x 2], '... of those that were whole';
    is_deeply [grep { m{^/tenfold} } @log], ['/tenfold 200 10000000 +'], '... and of the largest';
};

# Other workers must not get at what is for one application of several.
subtest 'where there is one application, the connection is lent, and nothing lies in the memory that is shared' => sub {
    for my $case (['one', 0], ['two', 1, '--mount', '/b=t/apps/echo.psgi']) {
        my ($what, $by_ring, @options) = @$case;
        my $server = start(@options);
        my $before = shared($server);
        is md5_hex(ask($server, 'GET /one HTTP/1.1')->response->{body}), md5_hex($piece), "$what: it is whole";
        is shared($server) - $before > 200_000 ? 1 : 0, $by_ring, "$what: by which way";
    }
};

subtest 'its client leaves' => sub {
    my $server = start();
    my $client = ask($server, 'GET /huge HTTP/1.1');
    gulp($client, 3_000_000);
    close $client->socket;
    like ask($server, 'GET / HTTP/1.1')->response->{body}, qr/^hello/, 'the worker is free';
};

subtest 'its worker is killed' => sub {
    my @log      = ('--access-log', '-', '--access-log-format', 'LOG %U %B %X');
    my @nowhere  = qw(--response-buffer 64k --response-spool 0);    # so that the worker is not through before
    my $server   = start(@log, @nowhere);
    my ($worker) = $server->workers;
    my $client   = ask($server, 'GET /huge HTTP/1.1', $hello);
    my $read     = gulp($client, 10_000_000);
    kill KILL => $worker;
    cmp_ok $read + gulp($client), '<', 100_000_000, 'the connection ends early, and has nothing more';
    ok $server->wait_for_log(qr{LOG /huge \d+ X}), 'the log has it as aborted';
    my ($bytes) = $server->log =~ m{LOG /huge (\d+)};
    cmp_ok $bytes, '<', 100_000_000, '... with no more bytes than there were';
    like ask($server, 'GET / HTTP/1.1')->response->{body}, qr/^hello/, 'another worker serves';
};

subtest 'the server changes meanwhile' => sub {
    for my $case (
        ['a new generation', sub { $_[0]->signal('HUP') }],
        ['a new program', sub { $_[1]->ask('upgrade') }],
        ['a worker that leaves', sub { }, '--max-requests', 1],
        ['the end of the server', sub { $_[0]->signal('TERM') }],
        )
    {
        my ($what, $change, @options) = @$case;
        my $operator = Howdah::Test::Operator->new;
        my $server   = start($operator->options, @options);
        my $client   = ask($server, "GET /huge HTTP/1.1\r\nConnection: close");
        my $read     = gulp($client, 10_000_000);
        $change->($server, $operator);
        cmp_ok $read + gulp($client), '>', 100_000_000, $what;
    }
};

# Reads from all of them whatever there is, until each has so much, if there is a bound, or its connection ends.
sub drink {
    my ($length, @clients) = @_;
    my $select = IO::Select->new(map { $_->socket } @clients);
    my %by     = map { $_->socket->fileno => $_ } @clients;
    while ($select->count) {
        my @ready = $select->can_read(20) or last;
        for my $socket (@ready) {
            my $client = $by{$socket->fileno};
            my $got    = sysread $socket, $client->{input}, 1 << 20, length $client->{input};
            $select->remove($socket) if !$got || $length && length $client->{input} >= $length;
        }
    }
    return;
}

# Those that have read the larger body, and what stands behind it.
sub all_of {
    my @clients = @_;
    drink(10_000_000, @clients);
    return [map { join ' ', md5_hex($_->response->{body}), $_->response->{body} =~ /^(\w+)/ } @clients];
}

# Fewer send at a time than there are processors, as long as their clients are quick.
for my $threads (1, 2) {
    my $several  = $threads == 1 ? '' : ", by $threads front threads";
    my @options  = ('--workers', 8, '--front-threads', $threads, $several ? '--spread-connections' : ());
    my $tenth    = 'GET /tenfold HTTP/1.1';
    my $whole    = md5_hex($piece x 10);
    my $expected = [("$whole hello") x 12];

    subtest "those who send a large one at the same time take turns$several" => sub {
        my $server = start(@options);
        is_deeply all_of(map { ask($server, $tenth, $hello) } 1 .. 12), $expected,
            'twelve at a time, each with another behind';

        my @deaf = map { ask($server, $tenth, $hello) } 1 .. 3;
        is_deeply all_of(map { ask($server, $tenth, $hello) } 1 .. 12), $expected, 'beside three that do not read';
        is_deeply all_of(@deaf), [@$expected[0 .. 2]], '... and these, later';

        my @left = map { ask($server, $tenth, $hello) } 1 .. 12;
        gulp($left[0], 1_000_000);
        close $_->socket for @left;
        is_deeply all_of(map { ask($server, $tenth, $hello) } 1 .. 12), $expected, 'after twelve that have left';

        my @lost = map { ask($server, "$tenth\r\nConnection: close") } 1 .. 12;
        gulp($lost[0], 1_000_000);
        kill KILL => $server->workers;
        drink(0, @lost);
        my %became = map { join(' ', @{$_->response}{qw(status error)}) => 1 } @lost[1 .. 11];
        delete @became{'200 ', '200 body cut short', '502 '};
        is_deeply \%became, {}, 'all workers are killed: each client has an answer, or a part of it';
        is_deeply all_of(map { ask($server, $tenth, $hello) } 1 .. 12), $expected, '... and others have all of theirs';

        my @before = map { ask($server, $tenth, $hello) } 1 .. 12;
        $server->signal('HUP');
        is_deeply all_of(@before), $expected, 'while a new generation comes';
    };

    subtest "the server changes while they take turns$several" => sub {
        for my $case (
            ['a new generation', sub { $_[0]->signal('HUP') }],
            ['a new program', sub { $_[1]->ask('upgrade') }],
            ['the end of the server', sub { $_[0]->signal('TERM') }],
            ['workers that leave', sub { }, '--max-requests', 2],
            ['all at once', sub { $_[0]->signal('HUP'); $_[1]->ask('upgrade') }, '--max-requests', 2],
            )
        {
            my ($what, $change, @more) = @$case;
            my $operator = Howdah::Test::Operator->new;
            my $server   = start($operator->options, @options, @more);
            my @clients  = map { ask($server, "$tenth\r\nConnection: close") } 1 .. 12;
            drink(1_000_000, @clients[0 .. 2]);
            $change->($server, $operator);
            drink(0, @clients);
            my @bodies = map { $_->response->{body} } @clients;
            is_deeply [map { md5_hex($_) } @bodies], [($whole) x 12], $what;
        }
    };
}

done_testing;
