# Launchers that can pass or take no descriptors: they go on, whoever wants something started hears why, and once there is room
# all is well.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Command qw(howdah_bin);
use Howdah::Test::Descriptors qw(can_limit fill_up leave_on_the_way limit_files);
use Howdah::Test::Operator;
use Howdah::Test::Server;
use Test::More;

plan skip_all => 'no prlimit (util-linux)' if !can_limit();

my $app = 'sub { [200, [], ["here"]] }';

# As root it has the rights of an ordinary user, for whom the kernel bounds what is on its way.
sub start {
    my $operator = Howdah::Test::Operator->new;
    my @ordinary = $> ? () : ('setpriv', '--bounding-set=-sys_resource,-sys_admin');
    my $server   = Howdah::Test::Server->start(
        app     => $app,
        command => [@ordinary, howdah_bin(), '--listen', '127.0.0.1:0'],
        options => ['--workers', 1, $operator->options],
    );
    return ($operator, $server);
}

sub reload {
    my $operator = shift;
    my ($status, undef, $error) = $operator->ask('reload');
    return "$status $error";
}

subtest 'the kernel passes none of a launcher' => sub {
    plan skip_all => 'no setpriv (util-linux)' if !$> && system('setpriv --version >/dev/null 2>&1') != 0;
    my ($operator, $server) = start();
    my @launchers  = sort $server->launchers;
    my @on_the_way = leave_on_the_way(95) or plan skip_all => 'which call sendmsg is is not known';
    limit_files($_, 90) for @launchers;
    is reload($operator), '0 ', "reload $_ works" for 1 .. 3;
    is_deeply [sort $server->launchers], \@launchers, 'both launchers live';
    unlike $server->log, qr/launcher has ended/;
    close $_ for @on_the_way;
    is $server->stop, 0;
};

subtest 'the launchers have no number left' => sub {
    my ($operator, $server) = start();
    my @launchers = sort $server->launchers;
    my @empty     = map { fill_up($_) } @launchers;
    like reload($operator), qr/^1 .*Too many open files.*ulimit -n/s, "reload $_ fails, and says why" for 1, 2;
    is_deeply [sort $server->launchers], \@launchers, 'both launchers live';
    $_->() for @empty;
    is reload($operator), '0 ', 'a reload works once there is room';
    unlike $server->log, qr/launcher (?:has ended|does not answer)/;
    is(Howdah::Test::Client->ask($server, "GET / HTTP/1.0\r\n\r\n")->{body}, 'here');
    is $server->stop, 0;
};

done_testing;
