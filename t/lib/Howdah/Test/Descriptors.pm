package Howdah::Test::Descriptors;

# Has processes go without descriptors.
#
#   plan skip_all => 'no prlimit (util-linux)' if !can_limit();
#   limit_files($pid, 90);                            # it may have no more open
#   my $empty = fill_up($pid);                        # there is no number for another one, until $empty->()
#   my @ends = leave_on_the_way(95);                  # past its limit no process without privileges passes any, while these are kept
use strict;
use warnings;

use Config;
use Exporter qw(import);
use Socket qw(AF_UNIX SOCK_DGRAM SOL_SOCKET);

our @EXPORT_OK = qw(can_limit fill_up leave_on_the_way limit_files);

sub can_limit {
    return scalar grep { -x "$_/prlimit" } split /:/, $ENV{PATH};
}

sub limit_files {
    my ($pid, $limit) = @_;
    system('prlimit', '--pid', $pid, "--nofile=$limit") == 0 or die "prlimit of process $pid failed";
    return;
}

# The lowest number that is free is the limit, until what is returned is called.
sub fill_up {
    my $pid  = shift;
    my $free = 0;
    $free++ while -l "/proc/$pid/fd/$free";
    my ($before) = qx(prlimit --pid $pid --nofile --output SOFT --noheadings --raw) =~ /(\d+)/ or die;
    limit_files($pid, "$free:");
    return sub { limit_files($pid, "$before:") };
}

# So many descriptors that nobody takes. Nothing where it is not known which call sendmsg is.
sub leave_on_the_way {
    my $count = shift;
    my ($sendmsg) = map { {x86_64 => 46, aarch64 => 211}->{$_} // () } $Config{archname} =~ /^([^-]+)/ or return;
    socketpair my $here, my $there, AF_UNIX, SOCK_DGRAM, 0 or die $!;
    my $vector = pack 'P Q', 'x', 1;
    my $passed = pack 'Q i i i*', 16 + 4 * $count, SOL_SOCKET, 1, (fileno $here) x $count;
    $passed .= "\0" x (-length($passed) % 8);
    my $message = pack 'Q Q P Q P Q Q', 0, 0, $vector, 1, $passed, length $passed, 0;
    syscall($sendmsg, fileno $here, $message, 0) >= 0 or die "sendmsg: $!";
    return ($here, $there);
}

1;
