# --cgi with mode=exec: what a script prints, and how it ends, becomes the response; what it says on standard error is in the
# log with script and request.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Scripts;
use Test::More;
use Time::HiRes qw(time);

my $scripts = Howdah::Test::Scripts->new(
    'plain.cgi'      => qq{printf 'Content-Type: text/plain\\n\\nhello'\n},
    'page.pl'        => qq{#!$^X\nprint "Content-Type: text/plain\\r\\n\\r\\n", 'x' x 34_000;\n},
    'large.pl'       => qq{#!$^X\nprint "Content-Type: text/plain\\n\\n"; print 'y' x 100_000 for 1 .. 30;\n},
    'status.cgi'     => qq{printf 'Status: 404 Gone Away\\nContent-Type: text/plain\\n\\nno'\n},
    'empty.cgi'      => qq{printf 'Status: 204\\n\\n'\n},
    'length.cgi'     => qq{printf 'Content-Type: text/plain\\nContent-Length: 4\\n\\nfour'\n},
    'nph-all.cgi'    => qq{printf 'HTTP/1.1 201 Made\\r\\nX-A: b\\r\\nConnection: close\\r\\n\\r\\nnph'\n},
    'nph-chunks.cgi' =>
        qq{printf 'HTTP/1.1 200 OK\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n3\\r\\none\\r\\n3\\r\\ntwo\\r\\n0\\r\\n\\r\\n'\n},
    'exit.cgi'     => qq{printf 'Content-Type: text/plain\\n\\nwhole'; exit 3\n},
    'silent.cgi'   => qq{exit 0\n},
    'dies.pl'      => qq{#!$^X\ndie "it is broken\\n";\n},
    'broken.cgi'   => qq{printf 'Content-Type text/plain\\n\\nx'\n},
    'headless.cgi' => qq{printf 'Content-Type: text/plain\\n'\n},
    'nobody.cgi'   => qq{#!/no/such/program\n},
    'says.cgi'     => qq{echo first >&2; echo second >&2; printf third >&2; printf 'Status: 204\\n\\n'\n},
    'closes.cgi'   => qq{printf 'Content-Type: text/plain\\n\\nearly'; exec >&-; sleep 1; echo done > worked\n},
    'leaves.cgi'   =>
        qq{printf 'Content-Type: text/plain\\n\\nparent'; echo \$\$ >left; (sleep 20; echo late) & exit 0\n},
    'held.cgi'   => qq{printf 'Content-Type: text/plain\\n\\nall'; kill -KILL \$\$\n},
    'killed.cgi' => qq{printf 'Content-Type: text/plain\\n\\nhalf'; sleep 0.2; kill -KILL \$\$\n},
    'slowly.pl'  =>
        qq{#!$^X\n\$| = 1; print "Content-Type: text/plain\\n\\n"; for (1 .. 3) { print "tick \$_\\n"; sleep 1 }\n},
);
my $server = $scripts->serve('exec', ['workers=4']);

# Script, status, body, and what the log says of it.
my @cases = (
    ['plain.cgi', 200, 'hello'],
    ['page.pl', 200, 'x' x 34_000],
    ['large.pl', 200, 'y' x 3_000_000],
    ['status.cgi', 404, 'no'],
    ['empty.cgi', 204, ''],
    ['length.cgi', 200, 'four'],
    ['nph-all.cgi', 201, 'nph'],
    ['nph-chunks.cgi', 200, 'onetwo'],
    ['exit.cgi', 200, 'whole', qr{exit\.cgi: it ended with exit status 3$}m],
    ['silent.cgi', 500, undef, qr{ERROR worker \d+ pid \d+ request \w+ GET /c/silent\.cgi: \S+/silent\.cgi: \S}],
    ['dies.pl', 500, undef, qr{WARN .* GET /c/dies\.pl: \S+/dies\.pl: it is broken\n.*ERROR .*/dies\.pl: }],
    ['broken.cgi', 500, undef, qr{ERROR .*/broken\.cgi: .*Content-Type text/plain}],
    ['headless.cgi', 500, undef, qr{ERROR .*/headless\.cgi: }],
    ['nobody.cgi', 500, undef, qr{ERROR .*/nobody\.cgi: cannot be run: No such file.* #! line}],
    ['says.cgi', 204, '', qr{/says\.cgi: first\n.*/says\.cgi: second\n.*/says\.cgi: third\n}],
    ['missing.cgi', 404, "404 Not Found\n", qr{INFO .* GET /c/missing\.cgi: }],
);
for my $case (@cases) {
    my ($name, $status, $body, $said) = @$case;
    my $response = $scripts->get($server, $name);
    is $response->{status}, $status, "$name: $status";
    is $response->{error}, '', '... well framed';
    ok $response->{body} eq $body, '... with its body' if defined $body;
    ok $server->wait_for_log($said, 10), '... and the log says why' or diag $server->log if $said;
}

# If the script ends within 5 ms of its first output.
my $is_told = sub { "@{$scripts->get($server, 'page.pl')->{headers}{'content-length'} // []}" eq '34000' };
ok $server->wait_until($is_told), 'a short page has its length';
my $is_held = sub { my $response = $scripts->get($server, 'held.cgi'); "@$response{qw(status error)}" eq '502 ' };
ok $server->wait_until($is_held), '... and none of it is sent where the script is killed';
ok $server->wait_for_log(qr{/held\.cgi: it ended with signal KILL$}m, 10), '... which the log says';
my $head = Howdah::Test::Client->ask($server, "HEAD /c/plain.cgi HTTP/1.1\r\nHost: x\r\n\r\n", head => 1);
is_deeply [@$head{qw(status body)}], [200, ''], 'HEAD has a head alone';
is $scripts->get($server, 'killed.cgi')->{error}, 'body cut short',
    'a script that is killed half-way does not look whole';

subtest 'output is sent as it comes' => sub {
    my $client = Howdah::Test::Client->new($server);
    my $start  = time;
    $client->write("GET /c/slowly.pl HTTP/1.0\r\n\r\n");
    ok $server->wait_until(sub { $client->{input} .= ''; $client->_more(time + 1); $client->{input} =~ /tick 1/ });
    unlike $client->{input}, qr/tick 3/, 'the first part is there before the last';
    like $client->rest, qr/tick 1\ntick 2\ntick 3\n\z/;
};

subtest 'nobody waits for what goes on behind the response' => sub {
    for my $case (['closes.cgi', 'early'], ['leaves.cgi', 'parent']) {
        my $start    = time;
        my $response = $scripts->get($server, $case->[0]);
        is_deeply [@$response{qw(status body error)}], [200, $case->[1], ''], $case->[0];
        cmp_ok time - $start, '<', 10, '... at once';
    }
    ok $server->wait_until(sub { ($scripts->read('worked') // '') eq "done\n" }), 'a script goes on behind its output';
    kill '-KILL', $scripts->read('left') =~ /(\d+)/;
};

is $server->stop, 0;

done_testing;
