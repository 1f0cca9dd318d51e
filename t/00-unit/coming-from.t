# What docs/coming-from.md says to those who come from other servers: each command beside another server's is one that starts, options
# that have "the same names" are taken, what is refused or of no use is said to be so, and every option that is named exists.
use strict;
use warnings;
use lib 't/lib';

use File::Temp qw(tempdir);
use Howdah::Test::Command qw(run_howdah);
use Howdah::Test::Tls;
use Test::More;
use Text::ParseWords qw(shellwords);

my $dir = tempdir(CLEANUP => 1);
my $tls = Howdah::Test::Tls->new;
my $app = "$dir/app.psgi";
open my $out, '>', $app or die $!;
print {$out} 'sub { [200, [], ["ok"]] }';
close $out or die $!;

open my $in, '<', 'docs/coming-from.md' or die $!;
my $page = join '', <$in>;
close $in or die $!;
$page =~ s/\\\n//g;

# The words of a command of the page, with files that are here.
sub words {
    my ($line) = @_;
    my %here = ('app.psgi' => $app, './shop.pl' => $app, 'shop.pl' => $app, 'www-data' => (getpwuid $<)[0]);
    $here{$_} = $tls->cert for qw(c.pem /etc/ssl/shop.pem);
    $here{$_} = $tls->key for qw(k.pem /etc/ssl/shop.key);
    return map { $here{$_} // s{^/(?:run|var/log/shop)/}{$dir/}r } grep { defined } shellwords($line =~ s/ {2,}#.*//r);
}
sub check { my @words = @_; return run_howdah('check', @words) }

my %refuse = map { $_ => 1 } qw(feersum uwsgi);
my $howdah = 0;
for my $line ($page =~ /^ {4}(?:start_server .*? -- )?((?:howdah|starman|feersum|uwsgi) .*)$/mg) {
    my ($program, @options) = words($line);
    $howdah += $program eq 'howdah';
    my ($status, undef, $err) = check(@options);
    is $status, $refuse{$program} ? 2 : 0, $line or diag $err;
    is $err, '', '... without a word' if $program eq 'howdah';
}
cmp_ok $howdah, '>=', 7, 'commands';

my (undef, $help) = run_howdah('--help');
my %known = map { $_ => 1 } $help =~ /(--[a-z0-9-]+)/g;
my %value = (
    '--ssl-cert'       => $tls->cert,
    '--ssl-key'        => $tls->key,
    '--pid-file'       => "$dir/pid",
    '--error-log'      => "$dir/log",
    '--header-timeout' => undef,        # which --read-timeout is
    map { $_ => '' } qw(--disable-proctitle --daemonize --disable-keepalive)
);
my $same = 0;
for my $row (grep { /^\| .*--/ } split /\n/, $page) {
    my (undef, $theirs, $ours) = split /\s*\|\s*/, $row;
    ok $known{$_}, "$_ exists" for $ours =~ /(--[a-z0-9-]+)/g;
    next if $theirs !~ /^`--/;
    my @theirs = $theirs =~ /(--[a-z0-9-]+)/g;
    if ($ours =~ /^the same names?/) {
        my @options =
            map { my $value = exists $value{$_} ? $value{$_} : 5; defined $value ? ($_, $value || ()) : () } @theirs;
        my ($status, undef, $err) = check(@options, $app);
        is "$status$err", '0', "@theirs";
        $same += @theirs;
    }
    else {
        for my $option (@theirs) {
            my ($status, undef, $err) = check($option, ($option =~ /-(?:ssl|restart|proxy|protocol)$/ ? () : 5), $app);
            like $err, $status ? qr/^ *tip: |--trusted-proxy/m : qr/^howdah: warning: \Q$option\E has no effect: /,
                $option;
        }
    }
}
cmp_ok $same, '>=', 20, 'names that are the same';

done_testing;
