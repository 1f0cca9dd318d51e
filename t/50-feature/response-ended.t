# A response that is ended while it is being written, by a handler of a signal or by the string itself, and a child that comes back
# from where its parent writes: nobody writes into what is the front's again, or another request's. A string that a handler frees
# while it is being written goes out as it was.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Server;
use Test::More;

my $app = <<'PSGI';
{
    package Lines;
    sub new { bless {left => 4} }
    sub close { }
    sub getline {
        my $self = shift;
        return if !$self->{left}--;
        if ($self->{left} == 2) {
            my $pid = fork // die;
            return "of the child\n" if !$pid;
            waitpid $pid, 0;
        }
        return "line $self->{left}\n";
    }
    package Last;
    use overload q{""} => sub { $_[0][0]->close; 'too late' }, fallback => 1;
    package Answers;
    use overload q{""} => sub { $_[0][0]->([200, []])->close; 'too late' }, fallback => 1;
}
sub note { print STDERR "seen $_[0]" }
sub reuse { push our @others, 'y' x 20_000_000 }
my %do = (
    pid   => sub { [200, [], [$$]] },
    other => sub { [200, [], ['o' x 300_000]] },
    alarm => sub { sub {
        my $writer = shift->([200, []]);
        local $SIG{ALRM} = sub { note("alarm\n"); $writer->close };
        alarm 1;
        eval { $writer->write('x' x 50_000_000); 1 } or note($@);
    } },
    freed => sub { sub {
        my $writer = shift->([200, []]);
        my $text = 'x' x 20_000_000;
        local $SIG{ALRM} = sub { undef $text; reuse(); note("freed\n") };
        alarm 1;
        $writer->write($text);
        $writer->close;
    } },
    emptied => sub {
        my @parts = ('x' x 20_000_000, 'tail');
        $SIG{ALRM} = sub { @parts = (); reuse(); note("emptied\n") };
        alarm 1;
        [200, [], \@parts];
    },
    chunk => sub {
        my @parts = ("1312d00\r\n" . 'x' x 20_000_000, "\r\n0\r\n\r\n");
        $SIG{ALRM} = sub { undef $parts[0]; reuse(); note("chunk\n") };
        alarm 1;
        [200, ['Transfer-Encoding' => 'chunked'], \@parts];
    },
    itself => sub { sub {
        my $writer = shift->([200, []]);
        $writer->write("first\n");
        eval { $writer->write(bless [$writer], 'Last'); 1 } or note($@);
    } },
    between => sub { sub {
        my $respond = shift;
        eval { $respond->([200, [A => bless [$respond], 'Answers'], [bless [$respond], 'Answers']]); 1 } or note($@);
        $respond->([200, [], ["after\n"]]);
    } },
    lines => sub { [200, [], Lines->new] },
    child => sub { sub {
        my $respond = shift;
        my $pid = fork // die;
        return if !$pid;
        waitpid $pid, 0;
        $respond->([200, [], ["$?"]]);
    } },
);
sub { my $env = shift; $do{substr $env->{PATH_INFO}, 1}->($env) };
PSGI

my $server = Howdah::Test::Server->start(
    app     => $app,
    options => ['--workers', 1, '--response-buffer', '64k', '--response-spool', 0],
);

sub request { return "GET /$_[0] HTTP/1.1\r\nHost: x\r\n\r\n" }
sub ask { return Howdah::Test::Client->ask($server, request($_[0])) }

my $pid = ask('pid')->{body};

subtest 'a handler of a signal closes the writer, whose write waits for a slow client' => sub {
    my $slow = Howdah::Test::Client->new($server);
    $slow->write(request('alarm'));
    ok $server->wait_for_log(qr{GET /alarm: seen the response has already ended}), 'the write dies';
    ok $server->wait_for_log(qr{GET /alarm: seen alarm}), '... of the handler'
        or diag $server->log;
    is ask('other')->{body}, 'o' x 300_000, 'the next response is whole' for 1 .. 3;
    my $response = $slow->response;
    is $response->{error}, '', 'the first one has its end';
    unlike $response->{body}, qr/[^x]/, '... and nothing of others';
};

for my $name (qw(freed emptied chunk)) {
    subtest "$name: a handler of a signal frees the string, whose write waits for a slow client" => sub {
        my $slow = Howdah::Test::Client->new($server);
        $slow->write(request($name));
        ok $server->wait_for_log(qr{GET /$name: seen $name});
        my $response = $slow->response;
        ok $response->{body} eq 'x' x 20_000_000, 'it is sent as it was' or diag length $response->{body};
    };
}

subtest 'a string that ends the response as it becomes one' => sub {
    is ask('itself')->{body}, "first\n";
    ok $server->wait_for_log(qr{GET /itself: seen the response has already ended}), 'is not written';
};

subtest 'a string that answers as it becomes one, within the answer' => sub {
    is ask('between')->{body}, "after\n";
    ok $server->wait_for_log(qr{GET /between: seen the application has already given its response}), 'dies';
};

subtest 'a child that comes back' => sub {
    for my $time (1, 2) {
        my $response = ask('lines');
        is $response->{error} || $response->{body}, join('', map { "line $_\n" } 3, 2, 1, 0), 'writes nothing';
    }
    ok $server->wait_for_log(qr{a child of the application failed: the response has already ended}),
        '... which is told';
    is ask('child')->{body}, 0, 'and where its parent has yet to answer it just ends';
    unlike $server->log, qr/never called its responder/, '... without a word';
};

is ask('pid')->{body}, $pid, 'one worker has served all of them';
is $server->stop, 0;

done_testing;
