package Howdah::Test::Inject;

# Has the system calls of a process, and of those that it starts, fail or take long, by strace:
#
#     my $inject = Howdah::Test::Inject->new($pid, 'sendmsg:error=ENOBUFS', 'openat:delay_enter=1000000')
#         or plan skip_all => Howdah::Test::Inject->NEEDS;
#     ...
#     $inject->end;
use strict;
use warnings;

use POSIX ();

use constant NEEDS => 'needs strace, and to be allowed to use it';

# None where strace is not there, or may not do it.
sub new {
    my ($class, $pid, @rules) = @_;
    pipe my $said, my $say or die $!;
    my $strace = fork // die $!;
    if (!$strace) {
        open STDERR, '>&', $say or die $!;
        my $calls = join ',', map { s/:.*//r } @rules;
        my @rule  = map { ('-e', "inject=$_") } @rules;
        exec qw(strace -f -o /dev/null -p), $pid, '-e', "trace=$calls", @rule or POSIX::_exit(127);
    }
    close $say;

    # It must not lack a reader of what it says.
    my $self = bless {pid => $strace, said => $said}, $class;
    return (<$said> // '') =~ /attached/ ? $self : undef;
}

# What comes is as ever.
sub end {
    my $pid = delete shift->{pid} // return;
    kill TERM => $pid;
    waitpid $pid, 0;
    return;
}

sub DESTROY { local $?; shift->end; return }

1;
