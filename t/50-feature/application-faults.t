# What an application can do wrong: the client gets 500 and nothing of it, the log gets the reason, and the worker goes
# on. PSGI 1.1, "The Response"; header syntax by RFC 9110 5.1 and 5.5.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Server;
use Test::More;

# Code of the application, and what the log says about it.
my @FAULTS = (
    ['die "on purpose\n"', qr/: on purpose$/],
    ['die {code => 1}', qr/: HASH\(/],
    ['die bless {}, "Mute"', qr/: an exception of class Mute, of which no text can be made$/],
    ['die bless {}, "Again"', qr/: an exception of class Again, of which no text can be made$/],
    ['die bless {}, "Mild"', qr/: mild$/],
    ['no warnings; next', qr/Can't "next" outside a loop block/],
    ['no warnings; last', qr/Can't "last" outside a loop block/],
    ['no warnings; redo', qr/Can't "redo" outside a loop block/],
    ['goto NOWHERE', qr/Can't find label NOWHERE/],
    ['"text"', qr/the response must be an array reference, not a plain value/],
    ['undef', qr/the response must be an array reference, not undef/],
    ['+{}', qr/the response must be an array reference, not HASH/],
    ['[200]', qr/three elements, not 1/],
    ['[200, []]', qr/three elements, not 2/],
    ['[200, [], [], 1]', qr/three elements, not 4/],
    ['[200, {}, []]', qr/the response headers must be an array reference, not HASH/],
    ['[200, ["X"], []]', qr/odd number of elements \(1\)/],
    ['["OK", [], []]', qr/the response status is "OK"/],
    ['[20, [], []]', qr/the response status is "20"/],
    ['[2000, [], []]', qr/the response status is "2000"/],
    ['["200OK", [], []]', qr/the response status is "200OK"/],
    ['[" 200", [], []]', qr/the response status is " 200"/],
    ['["200\r\nX: y", [], []]', qr/the response status is "200/],
    ['[100, [], []]', qr/status is 100: an interim response goes by psgix\.informational/],
    ['[200, [], "text"]', qr/the response body must be .*, not a string/],
    ['[200, [], undef]', qr/the response body must be .*, not undef/],
    ['[200, [], {}]', qr/getline/],
    ['open my $out, ">", "/dev/null"; [200, [], $out]', qr/body is a handle that was opened only for writing/],
    ['open my $in, "<", "/dev/null"; close $in; [200, [], $in]', qr/body is a handle that is not open/],
    ['opendir my $in, "/"; [200, [], $in]', qr/body is a handle that is not open/],
    ['open my $out, "|-", "true"; [200, [], $out]', qr/body is a handle that was opened only for writing/],
    ['[200, ["X" => "a\r\nInjected: 1"], []]', qr/header X has the control character \\x0D/],
    ['[200, ["X" => "a\nb"], []]', qr/header X has the control character \\x0A/],
    ['[200, ["X" => "a\0b"], []]', qr/header X has the control character \\x00/],
    ['[200, ["X" => "a\x7fb"], []]', qr/header X has the control character \\x7F/],
    ['[200, ["X: y" => "z"], []]', qr/invalid header name "X: y"/],
    ['[200, ["X\r\nY" => "z"], []]', qr/invalid header name/],
    ['[200, ["" => "z"], []]', qr/invalid header name ""/],
    ['[200, ["X" => "\x{263a}"], []]', qr/Wide character in a response header/],
    ['[200, [], ["\x{263a}"]]', qr/Wide character in body/],
    ['[200, [], ["a", "\x{263a}"]]', qr/Wide character in body/],
    ['[200, ["Content-Length" => "9" x 30], []]', qr/Content-Length is "9{30}"/],
    ['[200, ["Content-Length" => "9223372036854775808"], []]', qr/Content-Length is "9223372036854775808"/],
    ['[200, ["Content-Length" => "many"], []]', qr/Content-Length is "many"/],
    ['[200, ["Content-Length" => -1], []]', qr/Content-Length is "-1"/],
    ['[200, ["Content-Length" => 1, "Content-Length" => 2], ["a"]]', qr/two Content-Lengths, 1 and 2/],
    [
        '[200, ["Transfer-Encoding" => "gzip"], ["a"]]',
        qr/Transfer-Encoding is "gzip".*: say Content-Encoding where the body is in gzip/
    ],
    [
        '[200, ["Transfer-Encoding" => "Deflate, chunked"], ["a"]]',
        qr/Transfer-Encoding is "Deflate, chunked".* the body is in deflate/
    ],
    ['[200, ["X" => "x" x 70_000], []]', qr/header is longer than 65536 bytes/],
    ['[200, ["X" => "x" x 65_532], []]', qr/header is longer than 65536 bytes/],
    ['chunked("abc")', qr/chunked, but its body ends before the last chunk/],
    ['chunked("3\r\nbb")', qr/chunked, but its body ends before the last chunk/],
    ['chunked("3\r\nb", "bb\r\n")', qr/chunked, but its body ends before the last chunk/],
    ['chunked()', qr/chunked, but its body ends before the last chunk/],
    ['chunked("3\r\nbbbXYZ\r\n0\r\n\r\n")', qr/chunked, but its body is not in chunks/],
    ['chunked("3\rbbb\r\n0\r\n\r\n")', qr/chunked, but its body is not in chunks/],
    ['chunked("no chunk\r\n")', qr/chunked, but its body is not in chunks/],
    ['sub { }', qr/code reference that never called its responder\.$/],
    [
        'sub { eval { $_[0]->([200, ["a\n" => 1], []]) } }',
        qr/code reference that caught what its responder has died of\.$/
    ],
    ['sub { our $kept = shift }', qr/never called its responder, but keeps it: .* run that before it returns/],
    ['sub { undef $_[0]; return }', qr/never called its responder\.$/],
    ['sub { die "delayed\n" }', qr/: delayed$/],
    ['sub { die bless {}, "Mute" }', qr/class Mute/],
    ['sub { no warnings; next }', qr/Can't "next" outside a loop block/],
    ['[200, [], bless {}, "Lines"]', qr/Can't "last" outside a loop block/],
    ['sub { $_[0]->([200, ["X"], []]) }', qr/odd number of elements/],
);

# The same of a body of which the client has a part.
my @CUT = (
    'sub { my $out = $_[0]->(chunked_head()); $out->write("3\r\nbbb\r\n"); $out->close }',
    'sub { my $out = $_[0]->(chunked_head()); $out->write("3\r\nbbb\r\n"); eval { $out->close }; }',
    'sub { my $out = $_[0]->(chunked_head()); $out->write("3\r\nbb"); }',
    'sub { $_[0]->(chunked_head())->write("3\r\nbbbX") }',
    '[@{chunked_head()}, do { open my $in, "<", \"3\r\nbbb\r\n"; $in }]',
);

my $server = Howdah::Test::Server->start(
    options => ['--workers', 1],
    app     => '{
            package Mute;
            use overload q{""} => sub { die "no text\n" }, fallback => 1;
            package Again;
            use warnings; use overload q{""} => sub { die }, fallback => 1;
            package Mild;
            use overload bool => sub { 0 }, q{""} => sub { "mild" }, fallback => 1;
            package Lines;
            sub getline { no warnings; last }
            sub close { no warnings; next }
        }
        sub chunked_head { [200, ["Transfer-Encoding" => "chunked"]] }
        sub chunked { [@{chunked_head()}, [@_]] }
        my @faults = (' . join(', ', map { "sub { $_ }" } (map { $_->[0] } @FAULTS), @CUT) . ');
        sub { my $env = shift; $env->{PATH_INFO} =~ m{^/(\d+)$} ? $faults[$1]->($env) : [200, [], [$$]] };'
);

sub ask { return Howdah::Test::Client->ask($server, "GET $_[0] HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n") }

my $pid = ask('/')->{body};
for my $number (0 .. $#FAULTS) {
    my ($code, $reason) = @{$FAULTS[$number]};
    my $response = ask("/$number");
    is($response->{status}, 500, $code =~ s/\s+/ /gr);
    unlike($response->{head} . $response->{body}, qr/Injected|purpose|HASH|Wide/, '... tells the client nothing');
    my $place = qr{\S+ ERROR worker 0 pid \d+ request \S+ GET /$number: the application failed};
    ok($server->wait_for_log(qr/^$place: [^\n]*$/m), '... is logged with the request');
    my ($line) = $server->log =~ /^($place: [^\n]*)$/m;
    like($line, $reason, '... and the reason');
}
for my $number (0 .. $#CUT) {
    my $path     = '/' . (@FAULTS + $number);
    my $response = ask($path);
    like("$response->{status} $response->{error}", qr/^(?:500 |200 body cut short)$/, $CUT[$number]);
    ok($server->wait_for_log(qr/ERROR .* GET $path: the application failed: .*chunked, but its body/), '... is logged');
}
is(ask('/')->{body}, $pid, 'the worker has survived all of it');

subtest 'a destructor that uses eval, behind a request whose body is read where it lies' => sub {
    my $guarded = Howdah::Test::Server->start(
        options => ['--workers', 1],
        app     => '{ package Guard; sub DESTROY { eval { 1 } } }
            sub { my $guard = bless [], "Guard"; sub { $_[0]->([200, ["X" => "a\nb"], [$guard]]) } }',
    );
    my $head = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n";
    is(Howdah::Test::Client->ask($guarded, $head . 'x' x 100_000)->{status}, 500);
    ok $guarded->wait_for_log(qr{ERROR .* POST /: the application failed: the response header X has}),
        'leaves what the application has died of';
};

subtest 'a writer that is kept for an event loop which nobody runs' => sub {
    my $kept = Howdah::Test::Server->start(
        options => ['--workers', 1],
        app     => 'my ($writer, %do);
            %do = (
                kept    => sub { $writer = $_[0]->([200, []]); $writer->write("a part") },
                dropped => sub { my $own = $_[0]->([200, []]); $own->write("a part") },
                closed  => sub { $writer = $_[0]->([200, []]); $writer->write("a part"); $writer->close },
                dies    => sub { $writer = $_[0]->([200, []]); die "with it\n" },
            );
            sub { $do{substr $_[0]{PATH_INFO}, 1} }',
    );
    is(Howdah::Test::Client->ask($kept, "GET /$_ HTTP/1.1\r\nHost: x\r\n\r\n")->{body}, 'a part', $_)
        for qw(dropped closed kept);
    ok(Howdah::Test::Client->ask($kept, "GET /dies HTTP/1.1\r\nHost: x\r\n\r\n")->{error}, 'dies');
    ok $kept->wait_for_log(qr{ERROR .* GET /dies: the application failed: with it$}m), 'what it has died of is told';
    my $told = qr{WARN  worker 0 pid \d+ request \S+ GET /(\w+): the response ends here, .* but keeps it};
    is_deeply [$kept->log =~ /$told/g], ['kept'], 'of the one that waits the log says why its response ends';
};

subtest 'standard error that is closed, with a file in its place' => sub {
    my $file = $server->dir . '/data';
    my $bad  = Howdah::Test::Server->start(
        options => ['--workers', 1],
        app     => "open my \$data, '<', '/dev/null';
            sub {
                my \$path = \$_[0]{PATH_INFO};
                close STDERR if \$path eq '/close';
                open \$data, '>', '$file' or die if \$path eq '/open';
                die qq{in the log\\n} if \$path eq '/die';
                [200, [], [\$\$]];
            }"
    );
    my $path_of = sub { return "GET $_[0] HTTP/1.0\r\n\r\n" };
    my @asked   = map { Howdah::Test::Client->ask($bad, $path_of->($_)) } qw(/close /open /die /);
    is "@{[map { $_->{status} } @asked]}", '200 200 500 200';
    is $asked[3]{body}, $asked[0]{body}, 'one worker';
    ok $bad->wait_for_log(qr{ERROR worker 0 pid \d+ request \S+ GET /die: the application failed: in the log$}m),
        'what it has died of is in the log';
    ok -e $file && !-s $file, 'and not in the file';
};

subtest 'code that makes a part of the response, and lets go of the rest' => sub {
    my $careless = Howdah::Test::Server->start(
        options => ['--workers', 1],
        app     => '{
                package Careless;
                use overload q{""} => sub { $_[0][0]->(); our @junk = map { [("junk") x 20] } 1 .. 500; "made" }, fallback => 1;
                sub new { bless [$_[1]] }
                sub TIESCALAR { bless [$_[1]] }
                sub FETCH { $_[0][0]->() }
            }
            my ($response, $name) = (undef, "X-" . "a" x 40);
            my %tied = (
                status => [0, sub { push @$response, (1) x 5000; splice @$response, 3; 200 }],
                lists  => [1, sub { push @$response, (1) x 5000; splice @$response, 3; [$name => "made", "X-B" => "b"] }],
            );
            my %do = (
                headers => sub { $response->[1] = undef },
                fields  => sub { @{$response->[1]} = () },
                all     => sub { undef $response },
            );
            sub {
                my ($code, $delayed) = $_[0]{PATH_INFO} =~ m{^/(\w*)(/?)} or die;
                return [200, [], [$$]] if !$code;
                my $value = $do{$code} ? Careless->new($do{$code}) : $code eq "warning" ? undef : "made";
                $response = [200, [$name => $value, "X-B" => "b"], ["body"]];
                $SIG{__WARN__} = sub { @{$response->[1]} = () };
                tie $response->[$tied{$code}[0]], "Careless", $tied{$code}[1] if $tied{$code};
                $delayed ? sub { $_[0]->($response) } : $response;
            }'
    );
    my $get    = sub { return Howdah::Test::Client->ask($careless, "GET $_[0] HTTP/1.0\r\n\r\n") };
    my $worker = $get->('/')->{body};
    for my $path (qw(/headers /fields /all /headers/ /fields/ /all/ /status /lists /warning)) {
        my $response = $get->($path);
        is $response->{status}, 200, $path;
        like $response->{head}, qr/^X-a{40}: (?:made)?\r\nX-B: b\r$/m, '... has its fields';
        is $response->{body}, 'body', '... and its body';
    }
    is $get->('/')->{body}, $worker, 'the worker has survived all of it';
};

subtest 'an env that is locked, and tied to what dies of being asked' => sub {
    my @log  = ('--access-log', '/dev/null', '--access-log-format', '%u');
    my $tied = Howdah::Test::Server->start(
        options => ['--workers', 1, '--request-timeout', '20s', @log],
        app     => '{
                package Asked;
                require Tie::Hash;
                our @ISA = "Tie::StdHash";
                sub EXISTS { die "not to be asked\n" }
                sub FETCH { die "not to be asked\n" }
            }
            sub {
                my $env = shift;
                return [200, [], [$$]] if $env->{PATH_INFO} eq "/";
                tie %$env, "Asked";
                Internals::SvREADONLY(%$env, 1);
                [200, [], ["answered"]];
            }'
    );
    my ($before, $response, $behind) =
        map { Howdah::Test::Client->ask($tied, "GET $_ HTTP/1.0\r\n\r\n") } qw(/ /tied /);
    is "$response->{status} $response->{body}", '200 answered';
    is $behind->{body}, $before->{body}, 'nobody asks it behind the response, and the worker goes on';
    is scalar(() = $tied->log =~ /left in the middle of a request|between two requests/g), 0, 'which did not die of it';
};

done_testing;
