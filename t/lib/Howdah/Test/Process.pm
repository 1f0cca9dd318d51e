package Howdah::Test::Process;

# Which processes descend from others, and what they call themselves.
#
#   descendants(2, $server->pid);                # zygotes, launchers, workers: children and grandchildren
#   descendants(EVERY_GENERATION, @pids);
#   titled('worker', @pids);                     # those of a role
use strict;
use warnings;

use Exporter qw(import);
use Howdah::Test::File qw(read_if_any);

use constant EVERY_GENERATION => 9**9**9;

our @EXPORT_OK = qw(EVERY_GENERATION descendants titled);

# Those that live, so many generations down.
sub descendants {
    my ($generations, @parents) = @_;
    my %children;
    for my $file (glob '/proc/[0-9]*/stat') {
        open my $in, '<', $file or next;
        my ($pid, $state, $parent) = (<$in> // '') =~ /^(\d+) \(.*\) (\S) (\d+)/s or next;
        push @{$children{$parent}}, $pid if $state ne 'Z';
    }
    my @all;
    while ($generations-- > 0 && @parents) {
        @parents = map { @{$children{$_} // []} } @parents;
        push @all, @parents;
    }
    return @all;
}

# Those that call themselves "howdah: ROLE ...".
sub titled {
    my ($role, @pids) = @_;
    return grep { read_if_any("/proc/$_/cmdline") =~ tr/\0/ /r =~ /^howdah: $role/ } @pids;
}

1;
