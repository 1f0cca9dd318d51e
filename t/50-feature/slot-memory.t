# The shared memory takes no more addresses than it needs. Many large responses at once fill it; when they are out, most of it goes
# back to the system.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Server;
use Test::More;
use Time::HiRes qw(sleep);

my $count  = 60;
my $size   = 8 << 20;
my $server = Howdah::Test::Server->start(
    options => ['--workers', $count, qw(--response-buffer 64k --response-spool 0 --write-timeout 10m)],
    app     => "my \$body = 'm' x $size; sub { [200, ['Content-Length' => $size], [\$body]] }",
);

# Bytes that the segment takes.
sub segment {
    my ($link) = grep { (readlink($_) // '') =~ m{^/memfd:howdah \(deleted} } glob '/proc/' . $server->pid . '/fd/*';
    return 512 * (stat $link)[12];
}

# The zygote maps the segment in the midst of a larger place. Pages may have 16 or 64 KiB.
sub around {
    my ($zygote) = $server->processes('zygote');
    open my $maps, '<', "/proc/$zygote/maps" or die $!;
    my @maps = map { /^(\w+)-(\w+) (\S+)/ ? {from => $1, to => $2, rights => $3, line => $_} : () } <$maps>;
    my ($segment) = grep { $_->{line} =~ m{/memfd:howdah \(deleted} } @maps;
    return grep { $_->{rights} eq '---p' && ($_->{from} eq $segment->{to} || $_->{to} eq $segment->{from}) } @maps;
}
is join('', map { $_->{line} } around()), '', 'nothing is left of that beside the segment';

my @clients = map { Howdah::Test::Client->new($server) } 1 .. $count;
$_->write("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n") for @clients;
my $full = 0;
for (1 .. 100) {
    $full = segment();
    last if $full > $count * 500_000;
    sleep 0.1;
}
cmp_ok $full, '>', $count * 500_000, 'a stalled response fills its slot';

is scalar(grep { length $_->response->{body} == $size } @clients), $count, 'all responses arrive whole';
cmp_ok segment(), '<', 0.6 * $full, 'half of the slots have given their memory back';

done_testing;
