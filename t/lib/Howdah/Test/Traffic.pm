package Howdah::Test::Traffic;

# A howdah command that looks at a server for a while, and requests that come meanwhile, one after the other.
#
#   my ($status, $out, $err) = Howdah::Test::Traffic->during($server, ['/a', '/b'], 'leaks', '--control', $control);
use strict;
use warnings;

use File::Temp ();
use Howdah::Test::Client;
use Howdah::Test::Command qw(howdah_bin);
use Howdah::Test::File qw(read_file);
use POSIX qw(WNOHANG);
use Time::HiRes qw(sleep time);

use constant PATIENCE => 60;

sub during {
    my ($class, $server, $paths, @command) = @_;
    my $self = $class->begin(@command);
    my $end  = time + PATIENCE;
    until ($self->is_over) {
        die "the command does not end: @command\n" if time > $end;
        ask($server, $_) for @$paths;
        sleep 0.002;
    }
    return $self->outcome;
}

# Runs it beside the test.
sub begin {
    my ($class, @command) = @_;
    my $self = bless {out => File::Temp->new, err => File::Temp->new, owner => $$}, $class;
    $self->{pid} = fork // die "cannot fork: $!";
    return $self if $self->{pid};

    # A shell has what it starts in the background ignore it, and whatever that starts.
    $SIG{INT} = 'DEFAULT';    ## no critic (RequireLocalizedPunctuationVars)
    open STDOUT, '>&', $self->{out} or die $!;
    open STDERR, '>&', $self->{err} or die $!;
    exec {howdah_bin()} 'howdah', @command or POSIX::_exit(127);
}

sub ask {
    my ($server, $path) = @_;
    my $response = Howdah::Test::Client->ask($server, "GET $path HTTP/1.0\r\nHost: localhost\r\n\r\n");
    die "$path: $response->{error}\n" if $response->{error};
    return $response;
}

sub is_over {
    my $self = shift;
    return 1 if !$self->{pid};
    return 0 if waitpid($self->{pid}, WNOHANG) == 0;
    $self->{status} = $? & 127 ? 'signal ' . ($? & 127) : $? >> 8;
    delete $self->{pid};
    return 1;
}

# What it has said on standard error so far.
sub said { return read_file($_[0]{err}) }

sub interrupt { my $self = shift; return kill INT => $self->{pid} }

# Exit status, and what it has said.
sub outcome {
    my $self = shift;
    for (1 .. PATIENCE * 50) {
        last if $self->is_over;
        sleep 0.02;
    }
    return ($self->{status}, map { read_file($_) } @$self{qw(out err)});
}

sub DESTROY {
    my $self = shift;
    local ($@, $!, $?);
    return if !$self->{pid} || $self->{owner} != $$;
    kill KILL => $self->{pid};
    waitpid $self->{pid}, 0;
    return;
}

1;
