# Body handles that do not tell their length: sent whole, to their end.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Server;
use Test::More;

my $server = Howdah::Test::Server->start(options => ['--workers', 1], app => <<'PSGI');
sub slurp { open my $in, '<', $_[0] or die "$_[0]: $!"; local $/; my $all = <$in>; length $all }
my %do = (
    maps   => sub { open my $in, '<', '/proc/self/maps' or die $!; $in },
    status => sub { open my $in, '<', '/proc/self/status' or die $!; <$in>; $in },
    sysfs  => sub { open my $in, '<', '/sys/kernel/mm/transparent_hugepage/enabled' or return IO::File->new_tmpfile; $in },
    pipe   => sub { open my $in, '-|', 'seq 1 50000' or die $!; $in },
    fifo   => sub { pipe my $in, my $out; print {$out} 'short'; close $out; $in },
    empty  => sub { IO::File->new_tmpfile },
    end    => sub { my $file = IO::File->new_tmpfile; print {$file} 'abc'; $file->flush; $file },
    given  => sub { my $file = IO::File->new_tmpfile; print {$file} 'abcdef'; seek $file, 0, 0; $file },
);
sub {
    my ($name) = $_[0]{PATH_INFO} =~ /(\w+)/;
    [200, ['X-Pid' => $$, $name eq 'given' ? ('Content-Length' => 6) : ()], $do{$name}->()];
};
PSGI

sub ask {
    my ($name, %how) = @_;
    my $method = $how{head} ? 'HEAD' : 'GET';
    return Howdah::Test::Client->ask($server, "$method /$name HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", %how);
}

# Name, what the body must be.
my @cases = (
    [maps   => qr/\A(?:[0-9a-f]+-[0-9a-f]+ .*\n){20,}\z/],
    [status => qr/\AUmask:.*nonvoluntary_ctxt_switches:\t\d+\n\z/s],
    [sysfs  => qr/\A(?:.*\[\w+\].*\n)?\z/],
    [pipe   => join '', map { "$_\n" } 1 .. 50_000],
    [fifo   => 'short'],
    [empty  => ''],
    [end    => ''],
    [given  => 'abcdef'],
);
for my $case (@cases) {
    my ($name, $body) = @$case;
    my $response = ask($name);
    my $right    = ref $body ? $response->{body} =~ $body : $response->{body} eq $body;
    ok $right, "$name: all of it" or diag substr $response->{body}, 0, 200;
    is "$response->{status} $response->{error}", '200 ', '... and properly ended';
    my $lengths = ask($name, head => 1)->{headers}{'content-length'} // [];
    ok !grep({ $_ != length $response->{body} } @$lengths), '... HEAD gives no other length' or diag "@$lengths";
}

done_testing;
