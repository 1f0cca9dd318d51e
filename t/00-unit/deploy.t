# The units of deploy/ please systemd itself, and set nothing that howdah does not know.
use strict;
use warnings;
use lib 't/lib';

use File::Temp ();
use Howdah::Test::Command qw(howdah_bin run_command run_howdah);
use Test::More;

sub text {
    my $file = shift;
    open my $in, '<', $file or die "cannot read $file: $!";
    local $/;
    return scalar <$in>;
}

my $service = text('deploy/howdah@.service');
my @options = $service =~ /^Environment=HOWDAH_(\w+)=/mg;
cmp_ok scalar @options, '>=', 3, 'the service has options';
for my $option (map { tr/A-Z_/a-z-/r } @options) {
    next if $option eq 'app';
    like((run_howdah('--help'))[1], qr/--\Q$option\E\b/, "--$option is one of howdah's");
}

my $nginx = text('deploy/nginx.conf');
like $nginx, qr/^\s+location = $_ \{ return 404; \}$/m, "nginx's example denies $_" for qw(/server-status /metrics);
like $nginx, qr/^\s+proxy_set_header X-Forwarded-For /m, 'and tells for whom it asks';

SKIP: {
    skip 'there is no systemd-analyze', 2 if !grep { -x "$_/systemd-analyze" } split /:/, $ENV{PATH};
    my $dir = File::Temp->newdir;
    for my $unit ('howdah@.service', 'howdah@.socket') {
        my $copy = text("deploy/$unit");
        my $bin  = howdah_bin();
        $copy =~ s{/usr/local/bin/howdah}{$bin}g;    # which need not be installed here
        open my $out, '>', "$dir/$unit" or die $!;
        print {$out} $copy;
        close $out or die $!;
    }
    for my $unit ('howdah@.service', 'howdah@.socket') {
        my ($status, $out, $err) = run_command('systemd-analyze', 'verify', '--man=no', "$dir/$unit");
        is "$status$out$err", '0', "systemd-analyze verify $unit";
    }
}

done_testing;
