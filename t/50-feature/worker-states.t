# A worker's state has one name wherever it is shown: here that of one which finishes its last request, while the next
# generation serves already. And howdah status --json is what the status page has under ?json.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Operator;
use Howdah::Test::Server;
use JSON::PP qw(decode_json);
use Test::More;

my $app      = 'sub { select undef, undef, undef, 30 if $_[0]{PATH_INFO} eq "/slow"; [200, [], ["ok"]] }';
my $operator = Howdah::Test::Operator->new;
my $server   = Howdah::Test::Server->start(
    app     => $app,
    options => [qw(--workers 1 --status-path /server-status --metrics-path /metrics), $operator->options]
);

sub page {
    my $path = shift;
    return Howdah::Test::Client->ask($server, "GET $path HTTP/1.1\r\nHost: localhost\r\n\r\n")->{body};
}
sub json { return decode_json(page('/server-status?json')) }
sub command { return ($operator->ask(@_))[1] }

my $slow = Howdah::Test::Client->asking($server, '/slow');
ok $server->wait_until(sub { json()->{workers}{list}[0]{state} eq 'busy' }), 'busy';
is + ($operator->ask('reload'))[0], 0;

my ($page, $status) = (json(), $operator->status);
my @states = map { [sort map { $_->{state} } @{$_->{workers}{list}}] } $page, $page->{pools}[0], $status;
is_deeply \@states, [(['draining', 'idle']) x 3], 'draining, says JSON';
like command('status'), qr/^ +\d+ +\d+ +draining .* GET \/slow$/m, 'howdah status';
like command('top', '--once'), qr/^ +\d+ +\d+ draining .* GET x\/slow /m, 'howdah top';
like page('/server-status'), qr{<span class="state draining">draining</span>}, 'the page';
like page('/server-status?auto'), qr/^Scoreboard: [_.]*G[_.]*\n/m, 'mod_status has a letter';
like page('/metrics'), qr/^howdah_workers\{state="draining"\} 1$/m, 'metrics';

is_deeply [sort keys %$status], [sort keys %$page], 'howdah status --json has the members of ?json';
is $status->{$_}, $page->{$_}, $_ for qw(state generation);
is_deeply [map { $_->{name} } @{$status->{pools}}], ['/'], 'one pool, at the root';
like $status->{server}{listeners}[0], qr{^http://127\.0\.0\.1:\d+$}, 'and the addresses';
is $status->{pools}[0]{zygote}, $page->{pools}[0]{zygote}, 'and its zygote';

done_testing;
