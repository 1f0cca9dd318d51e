# --user and --group: the listeners are bound by root, the application is loaded and run by another.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Command qw(howdah_bin run_command run_howdah);
use Howdah::Test::Server;
use Test::More;

my ($uid, $gid) = (getpwnam 'nobody')[2, 3];
plan skip_all => 'needs root, and a user called nobody' if $> != 0 || !defined $uid;

my $app     = 'my $loader = "$<"; sub { [200, [], ["$loader $< $> " . ($( + 0) . " " . ($) + 0)]] }';
my $request = "GET / HTTP/1.0\r\n\r\n";

sub whoami {
    my $server = Howdah::Test::Server->start(options => ['--workers', 1, '-e', $app, @_]);
    return Howdah::Test::Client->ask($server, $request)->{body};
}

is whoami('--user', 'nobody'), "$uid $uid $uid $gid $gid", 'a user by name, with its group';
is whoami('--user', $uid), "$uid $uid $uid $gid $gid", 'and by number';
is whoami('--user', 'nobody', '--group', 'daemon'), join(' ', ($uid) x 3, (scalar getgrnam 'daemon') x 2),
    'with another group';

my ($status, undef, $err) = run_howdah('-l', '127.0.0.1:0', '--user', 'no-such-user', '-e', $app);
is $status, 1, 'a user who does not exist';
like $err, qr/no-such-user/;

SKIP: {
    my ($setpriv) = grep { -x "$_/setpriv" } split /:/, $ENV{PATH};
    skip 'there is no setpriv', 2 if !$setpriv;
    my @as_nobody = ('setpriv', "--reuid=$uid", "--regid=$gid", '--clear-groups');
    skip 'nobody cannot reach the checkout', 2 if (run_command(@as_nobody, howdah_bin(), '--version'))[0];
    ($status, undef, $err) = run_command(@as_nobody, howdah_bin(), '--user', 'daemon', '-e', $app);
    is $status, 2, 'only root can become another';
    like $err, qr/--user needs root/;
}

done_testing;
