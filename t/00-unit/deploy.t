# The units of deploy/ please systemd itself, and set nothing that howdah does not know.
use strict;
use warnings;
use lib 't/lib';

use File::Temp ();
use Howdah::Test::Command qw(howdah_bin run_command run_howdah);
use Howdah::Test::File qw(read_file);
use Test::More;

sub file {
    my ($name, $content) = @_;
    open my $out, '>', $name or die "cannot write $name: $!";
    print {$out} $content;
    return close $out;
}

my $service = read_file('deploy/howdah@.service');
my @options = $service =~ /^Environment=HOWDAH_(\w+)=/mg;
cmp_ok scalar @options, '>=', 3, 'the service has options';
for my $option (map { tr/A-Z_/a-z-/r } @options) {
    next if $option eq 'app';
    like((run_howdah('--help'))[1], qr/--\Q$option\E\b/, "--$option is one of howdah's");
}

like $service, qr/^OOMPolicy=continue$/m, 'lack of memory costs the worker that takes it, and not the service';

my ($wrong) = do { local $ENV{HOWDAH_MAX_QUEUE} = 'many'; run_howdah('-e', 'sub {}') };
my ($final) = $service =~ /^RestartPreventExitStatus=(\d+)$/m;
is $wrong, $final, 'a wrong option, which the next start has, too, is not tried again and again';

my $nginx = read_file('deploy/nginx.conf');
like $nginx, qr/^\s+location = $_ \{ return 404; \}$/m, "nginx's example denies $_" for qw(/server-status /metrics);
like $nginx, qr/^\s+proxy_set_header X-Forwarded-For /m, 'and tells for whom it asks';

my ($listen)    = read_file('deploy/README.md') =~ /^ +HOWDAH_LISTEN=(\S+)$/m;
my ($trusted)   = read_file('deploy/README.md') =~ /^ +HOWDAH_TRUSTED_PROXY=(\S+)$/m;
my ($socket)    = read_file('deploy/README.md') =~ m{listens on `/run/(\S+)`};
my ($connected) = $nginx =~ /^\s+server unix:(\S+);$/m;
is $listen, "$connected,mode=0660", 'the service of the instructions listens where nginx connects';
like $nginx, qr/HOWDAH_LISTEN=\Q$listen\E /, 'nginx\'s example says so';
is read_file('deploy/howdah@.socket') =~ m{^ListenStream=%t/(\S+)$}m && $1 =~ s/%i/shop/r, $socket,
    'or where systemd does';
my ($log) = read_file('deploy/README.md') =~ m{^ +HOWDAH_ACCESS_LOG=/var/log/(\S+)/access\.log$}m;
is $service =~ /^LogsDirectory=(\S+)$/m && $1 =~ s/%i/shop/r, $log,
    'the access log lies in the directory that the service has for it';
{
    local @ENV{qw(HOWDAH_LISTEN HOWDAH_TRUSTED_PROXY)} = ($listen, $trusted);
    my ($status, $out, $err) = run_howdah('check', '-e', 'sub {}');
    is $status, 0 or diag $err;
    like $out, qr/^trusted-proxy +unix +HOWDAH_TRUSTED_PROXY$/m, 'and believes it';
}

# What systemd says of our units; what it says of others that it loads on the way is not ours to mend.
sub of_ours {
    my ($dir, $said) = @_;
    return grep { /\Q$dir\E|howdah@/ } split /\n/, $said;
}

SKIP: {
    skip 'there is no systemd-analyze', 6 if !grep { -x "$_/systemd-analyze" } split /:/, $ENV{PATH};
    my $dir    = File::Temp->newdir;
    my $broken = File::Temp->newdir;
    mkdir "$broken/sysinit.target.wants" or die $!;
    file("$broken/broken.service", "[Service]\nExecStart=/bin/true\nNoSuchKey=1\nMemoryLimit=lots\n");
    symlink "$broken/broken.service", "$broken/sysinit.target.wants/broken.service" or die $!;
    for my $unit ('howdah@.service', 'howdah@.socket') {
        my $copy = read_file("deploy/$unit");
        my $bin  = howdah_bin();
        file("$dir/$unit", $copy =~ s{/usr/local/bin/howdah}{$bin}gr);    # which need not be installed here
    }
    my $verify = sub { my @outcome = run_command('systemd-analyze', 'verify', '--man=no', shift); "@outcome[1, 2]" };
    for my $unit ('howdah@.service', 'howdah@.socket') {
        is_deeply [of_ours($dir, $verify->("$dir/$unit"))], [], "systemd-analyze verify $unit";
        local $ENV{SYSTEMD_UNIT_PATH} = "$broken:";
        is_deeply [of_ours($dir, $verify->("$dir/$unit"))], [], '... also where another unit is broken';
    }
    my ($tight) = read_file('deploy/README.md') =~ /^## How tight.*?^    \[Service\]\n((?:    \w+=[^\n]*\n)+)/ms;
    my $tightened = read_file("$dir/howdah\@.service") =~ s/^(?=\[Install\])/$tight =~ s{^ +}{}gmr/mer;
    file("$dir/howdah@.service", $tightened);
    is_deeply [of_ours($dir, $verify->("$dir/howdah@.service"))], [], 'also as tight as the instructions have it';
    file("$dir/howdah@.service", read_file('deploy/howdah@.service') =~ s/^WatchdogSec/WatchdogSecond/mr);
    isnt scalar(of_ours($dir, $verify->("$dir/howdah@.service"))), 0, 'a mistake in ours is found';
}

done_testing;
