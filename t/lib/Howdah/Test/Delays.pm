package Howdah::Test::Delays;

# System calls of a process, and of those it forks, that take their time: strace holds them up.
use strict;
use warnings;

use POSIX ();

use constant NEEDED => 'needs strace, and to be allowed to use it';

# Holds up the calls named, each for so many seconds before it is made, and goes on until `end`. A third word says which of
# them, as strace has it (when=2). Nothing where strace is missing or refused.
sub of {
    my ($class, $pid, @delays) = @_;
    pipe my $said, my $say or die "cannot make a pipe: $!";
    my $strace = fork // die "cannot fork: $!";
    if (!$strace) {
        open STDERR, '>&', $say or POSIX::_exit(127);
        my $calls = join ',', map { $_->[0] } @delays;
        my @held  = map {
            my ($call, $seconds, @which) = @$_;
            ('-e', join ':', "inject=$call", 'delay_enter=' . $seconds * 1_000_000, @which)
        } @delays;
        exec qw(strace -f -o /dev/null -e), "trace=$calls", @held, '-p', $pid or POSIX::_exit(127);
    }
    close $say;
    my $line = <$said> // '';

    # What it says later must not lack a reader.
    my $self = bless {strace => $strace, said => $said}, $class;
    return $self if $line =~ /attached/;
    $self->end;
    return;
}

sub end {
    my $self   = shift;
    my $strace = delete $self->{strace} // return;
    kill TERM => $strace;
    waitpid $strace, 0;
    return;
}

sub DESTROY {
    my $self = shift;
    local ($?, $!);
    $self->end;
    return;
}

1;
