# A worker's life costs little more than fork and exit: a page that it writes to is copied for it, so it writes to few.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Server;
use Test::More;

use constant {QUOTA => 5, LIVES => 20};

# 106 to 111 on Linux 6.18 and perl 5.36; 144 to 157 with what perl frees before the first fork strewn over the heap, and with
# the subs that were called at each end (docs/decisions/05).
use constant MOST => 135;

my $server = Howdah::Test::Server->start(
    app     => 'sub { [200, ["Content-Type" => "text/plain"], [join " ", $$, getppid]] }',
    options => ['--workers', 1, '--max-requests', QUOTA]
);

# Pages that the children of a process had to ask for, as far as these have ended (proc(5), cminflt).
sub faults_of_children {
    my $pid = shift;
    open my $in, '<', "/proc/$pid/stat" or die "no zygote: $!";
    my ($fields) = <$in> =~ /.*\) (.*)/s;
    return (split / /, $fields)[8];
}

my $request = "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
my (%workers, $zygote, $before);
for my $turn (0 .. QUOTA * LIVES) {
    (my $worker, $zygote) = split / /, Howdah::Test::Client->ask($server, $request)->{body};
    $before //= faults_of_children($zygote);
    $workers{$worker}++;
}
cmp_ok keys %workers, '>', LIVES, 'many workers have served';
my $faults = (faults_of_children($zygote) - $before) / LIVES;
cmp_ok $faults, '>', 0, 'most have ended';
cmp_ok $faults, '<', MOST, 'one life asks for few pages';

done_testing;
