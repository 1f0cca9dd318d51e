# A worker overwrites random words of every part of the memory that it shares with the front, two hundred times, under load:
# the front lives, serves again soon, and no response ever carries what belongs to another request.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Load;
use Howdah::Test::Server;
use List::Util qw(max);
use Test::More;
use Time::HiRes qw(sleep time);

use constant LONGEST => 60;
use constant PARTS => qw(header names queue fronts workers routes ring controls requests far reports responses extents);

my $seed = $ENV{SCRIBBLE_SEED} // int time ^ $$;
my $more = $ENV{SCRIBBLE_TIMES} // 1;              # so many times as many rounds
my $code = do { local $/; <DATA> };
alarm 400 * $more;
srand $seed;

sub scribble {
    my ($server, $part) = @_;
    my $body   = sprintf 'my ($part, $seed) = ("%s", %d); %s', $part, rand 2**31, $code;
    my $client = Howdah::Test::Client->new($server);
    $client->write(sprintf "POST /do HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", length $body, $body);
    return $client;
}

# Asks until the answer is the right one: how long that took.
sub serves_after {
    my ($server, $name) = @_;
    my $begin = time;
    while ($server->is_running && time - $begin < 15) {
        my $client = eval { Howdah::Test::Client->new($server) } or next;
        $client->write("GET /$name HTTP/1.1\r\nHost: x\r\n\r\n");
        my $response = $client->response(patience => 15);
        return time - $begin if $response->{status} == 200 && $response->{body} eq "$name 0";
    }
    return;
}

# Seconds that each round took; fewer than wanted when the server did not come back.
sub rounds {
    my ($server, $wanted) = @_;
    my ($end, @took)      = time + LONGEST * $more;
    while (@took < $wanted && time < $end) {
        my $mad = scribble($server, (PARTS)[@took % +PARTS]);
        push @took, serves_after($server, "$$-" . 7 * @took) // last;
        sleep rand 0.06;
    }
    return @took;
}

# What the load takes for a wrong response is the whole one of another request, or has been scribbled upon. So may be the
# length of the body, behind the id: the one number that the scribbler writes there is 0.
sub others {
    return grep { /^'((\d+-\d+) (\d+))' for ((\S+).*)/ && $1 ne $4 && !($2 eq $5 && $3 == 0) } @_;
}

sub survives {
    my ($rounds, @options) = @_;
    my $server = Howdah::Test::Server->start(
        file    => 't/apps/scribble.psgi',
        options => ['--workers', 4, @options],
    );
    my @load    = map { Howdah::Test::Load->start($server, connections => 6, fresh => $_) } 0, 1;
    my @took    = rounds($server, $rounds);
    my @results = map { $_->stop->finish } @load;
    ok $server->is_running, 'the front lives';
    is scalar(@took), $rounds, 'after each of the rounds it serves' or diag "seed $seed\n", substr $server->log, -3000;
    cmp_ok scalar(grep { $_ > 2 } @took), '<=', $rounds / 20, sprintf 'within two seconds, at most %.2f', max 0, @took;

    my @problems = map { @{$_->{problems}} } @results;
    is_deeply [others(@problems)], [], 'no response carries what belongs to another request' or diag "seed $seed";
    is_deeply [grep { /^no response/ } @problems], [], 'none is left without an end' or diag "seed $seed";
    my %status;
    for my $result (@results) { $status{$_} += $result->{status}{$_} for keys %{$result->{status}} }
    cmp_ok $status{200} // 0, '>', $rounds, 'and most are served';
    my $replaced = () = $server->log =~ /It is replaced together/g;
    cmp_ok $replaced, '>', 0, 'damage was found';
    unlike $server->log, qr/panicked/, 'nothing panics';
    is $server->stop, 0, 'the server ends well';
    return note join ', ', "seed $seed, replaced $replaced times", map { "$_ $status{$_}" } sort keys %status;
}

subtest 'a hundred and forty'           => sub { survives(140 * $more) };
subtest 'sixty, with two front threads' => sub { survives(60 * $more, '--front-threads', 2, '--spread-connections') };

done_testing;

__DATA__
srand $seed;
my ($at, $length) = $segment->region($part, int rand 12);
my @known = $segment->words($at, $length / 8);

# Bytes of requests and responses never become digits, or the scribbler would make one response look like another.
my $protocol = $part !~ /^(?:requests|far|reports|responses|extents)$/;
my @kinds    = (
    sub { int(rand 2**32) << 32 | int rand 2**32 },
    sub { $_[0] ^ ($protocol ? 1 << int rand 64 : 0x80 << 8 * int rand 8) },
    sub { $protocol ? $known[rand @known] : 0 },
    sub { $protocol ? int rand 2**16 : 1 },
    sub { ~0 },
);
for (1 .. (1, 1, 4, 40)[rand 4]) {
    my $place = $at + 8 * int rand @known;
    $segment->write($place, $kinds[rand @kinds]->($segment->words($place, 1)));
}
"done";
