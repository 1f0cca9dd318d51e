# --user and --group: the listeners are bound as root, the application is loaded and runs as somebody else.
use strict;
use warnings;
use lib 't/lib';

use Config;
use File::Temp ();
use Howdah::Test::Client;
use Howdah::Test::Command qw(howdah_bin run_command);
use Howdah::Test::File qw(write_file);
use Howdah::Test::Scripts;
use Howdah::Test::Server;
use Test::More;

plan skip_all => 'only root can become somebody else' if $> != 0;
my ($uid, $gid) = (getpwnam 'nobody')[2, 3];
plan skip_all => 'there is no user nobody' if !defined $uid;

my $APP = <<'PSGI';
my $loaded = "$</$>/" . ($( + 0) . '/' . ($) + 0);
sub {
    my $env = shift;
    return [200, [], ["$loaded $</$>/" . ($( + 0) . '/' . ($) + 0)]] if $env->{PATH_INFO} eq '/';
    if ($env->{PATH_INFO} eq '/all') {
        open my $status, '<', '/proc/self/status' or die $!;
        return [200, [], [grep { s/^[UG]id:\s*// } <$status>]];
    }
    open my $file, '<', '/usr/bin/perl' or die $!;
    return [200, [], $file];
};
PSGI

sub ask {
    my ($server, $path) = @_;
    return Howdah::Test::Client->ask($server, "GET $path HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
}

sub launch { return Howdah::Test::Server->launch(options => ['--workers', 1, @_, '-e', $APP]) }

# As in a container.
my ($unlisted) = grep { !getpwuid $_ } 54_321 .. 55_000;
my @cases = (
    [['--user', $unlisted, '--group', $unlisted], join '/', ($unlisted) x 4],
    [['--user', 'nobody'], "$uid/$uid/$gid/$gid"],
    [['--user', $uid], "$uid/$uid/$gid/$gid"],
    [['--user', 'nobody', '--group', 'daemon'], join '/', $uid, $uid, (scalar getgrnam 'daemon') x 2],
    [['--group', 'daemon'], join '/', 0, 0, (scalar getgrnam 'daemon') x 2],
);
for my $case (@cases) {
    my ($options, $ids) = @$case;
    my $server = launch(@$options);
    $server->wait_for_log(qr/serving/);
    is(ask($server, '/')->{body}, "$ids $ids", "loads and runs as @$options");
    my ($as_user, $as_group) = (split m{/}, $ids)[0, 2];
    is(
        ask($server, '/all')->{body},
        join('', map { join("\t", ($_) x 4) . "\n" } $as_user, $as_group),
        '... without any id to come back to'
    );
    cmp_ok(length ask($server, '/file')->{body}, '==', -s '/usr/bin/perl', '... and sends files')
        if $options->[0] eq '--user';
}

# As where users are in a directory (LDAP, SSSD), which is asked for the groups of one, and shows nobody the list of all.
SKIP: {
    my $dir = File::Temp->newdir(TMPDIR => 1);
    chmod 0755, "$dir" or die $!;
    write_file("$dir/directory.c", <<'C');
#include <errno.h>
#include <grp.h>
#include <stddef.h>

struct group *getgrent(void) { return NULL; }
int getgrent_r(struct group *entry, char *text, size_t length, struct group **found) { *found = NULL; return ENOENT; }

int getgrouplist(const char *user, gid_t group, gid_t *groups, int *count) {
    const gid_t all[] = {group, 54321, 54322};
    for (int at = 0; at < 3 && at < *count; at++)
        groups[at] = all[at];
    const int room = *count;
    *count = 3;
    return room < 3 ? -1 : 3;
}
C
    skip 'no C compiler', 2
        if system("$Config{cc} -shared -fPIC -o $dir/directory.so $dir/directory.c 2>/dev/null") != 0;
    my $told = 'join " ", sort { $a <=> $b } grep { !$seen{$_}++ } split " ", $)';
    my $scripts =
        Howdah::Test::Scripts->new('groups' => "#!$^X\nmy %seen; print qq(Content-Type: text/plain\\n\\n), $told;\n");
    my $server = Howdah::Test::Server->start(
        env     => {LD_PRELOAD => "$dir/directory.so"},
        options => [
            '--user', 'nobody', '--cgi', '/cgi=' . $scripts->dir, '--mount',
            '/=' . write_file("$dir/app.psgi", "sub { my %seen; [200, [], [$told]] }")
        ]
    );
    my $groups = join ' ', sort { $a <=> $b } $gid, 54_321, 54_322;
    is(ask($server, '/')->{body}, $groups, 'an application has the groups of its user, wherever they are listed');
    is(ask($server, '/cgi/groups')->{body}, $groups, '... as a script has');
}

# As programs do that know a file only: the pipe is root's, and is opened anew by its mode.
{
    my $opens = 'open my $log, ">>", "/dev/stderr" or die "cannot open: $!"; print {$log} "by its path\n"; close $log; '
        . 'my $said = `echo of a shell >/dev/stderr && echo both`;';
    my $scripts =
        Howdah::Test::Scripts->new('logs' => qq{#!$^X\n$opens print "Content-Type: text/plain\\n\\n\$said";\n});
    my $app    = write_file($scripts->dir . '/.app.psgi', "sub { $opens [200, [], [\$said]] }");
    my $server = Howdah::Test::Server->start(
        options => [
            '--user', 'nobody', '--workers', 1, '--mount', "/=$app",
            map { ('--cgi', join ',', "/$_=" . $scripts->dir, "mode=$_") } qw(exec fork keep)
        ]
    );
    my $count = 0;
    for my $path ('/', map { "/$_/logs" } qw(exec fork keep)) {
        is(ask($server, $path)->{body}, "both\n", "$path opens standard error by its path");
        $count++;
        ok($server->wait_for_log(qr/(?:by its path.*?of a shell.*?){$count}/s), '... and the log has it');
    }
}

my $server = launch('--user', 'no-such-user');
is($server->wait_for_exit, 1, 'an unknown user ends the start');
like($server->log, qr/--user: there is no user 'no-such-user'/, '... and is named');
unlike($server->log, qr/application/, '... without a word of the application');

$server = launch('--user', $unlisted);
is($server->wait_for_exit, 1, 'so does a number without a name where no group is given');
like(
    $server->log, qr/--user: user $unlisted is not in the list of users, .*: name that by --group/,
    '... which is asked for'
);

SKIP: {
    my @without = ('setpriv', '--bounding-set=-setuid,-setgid');
    skip 'there is no setpriv', 4 if (run_command(@without, 'true'))[0];
    for my $application (['-e', $APP], ['--cgi', '/=t/cgi/scripts']) {
        my ($status, undef, $err) =
            run_command(@without, howdah_bin(), qw(--listen 127.0.0.1:0 --user nobody), @$application);
        is($status, 1, 'a root that may not become somebody else ends the start');
        like(
            $err, qr/cannot change to group $gid: .*; root may if it has CAP_SETUID.* else leave out --user/,
            '... and hears what it takes'
        );
    }
}

SKIP: {
    my @keeping = ('setpriv', '--securebits', '+no_setuid_fixup');
    skip 'there is no such setpriv', 2 if (run_command(@keeping, 'true'))[0];
    my $told =
        'do { open my $status, "<", "/proc/self/status"; join "", map { /^CapPrm:\s*(\w+)/ ? $1 : () } <$status> }';
    my $scripts = Howdah::Test::Scripts->new('kept' => "#!$^X\nprint qq(Content-Type: text/plain\\n\\n), $told;\n");
    my $server  = Howdah::Test::Server->start(
        command => [@keeping, howdah_bin(), '--listen', '127.0.0.1:0'],
        options => [
            '--user', 'nobody', '--cgi', '/cgi=' . $scripts->dir, '--mount',
            '/=' . write_file($scripts->dir . '/.app.psgi', "sub { [200, [], [$told]] }")
        ]
    );
    like(ask($server, $_)->{body}, qr/^0+$/, "$_: no capability of root, where the kernel was told to leave them")
        for '/', '/cgi/kept';
}

SKIP: {
    my @as_nobody = ('setpriv', "--reuid=$uid", "--regid=$gid", '--clear-groups');
    skip 'there is no setpriv', 2 if !grep { -x "$_/setpriv" } split /:/, $ENV{PATH};
    skip 'nobody cannot reach the checkout', 2 if (run_command(@as_nobody, howdah_bin(), '--version'))[0];
    my ($status, undef, $err) = run_command(@as_nobody, howdah_bin(), '--user', 'daemon', '-e', $APP);
    is($status, 2, 'only root can become somebody else');
    like($err, qr/--user needs root/);
}

done_testing;
