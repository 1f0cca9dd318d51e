package Howdah::Test::Command;

# Runs the howdah program to its end and tells what it said: for tests of the command line, which start
# no server. The program is bin/howdah of the checkout, or what $ENV{HOWDAH_BIN} names.
use strict;
use warnings;

use Exporter qw(import);
use File::Spec::Functions qw(rel2abs);
use File::Temp ();
use Howdah::Test::File qw(read_file);

our @EXPORT_OK = qw(begin_howdah howdah_bin run_howdah run_command);

# Seconds after which a command is ended: `make install` takes four on a machine that does nothing else, and fifteen times as long
# where twenty others want its processors.
use constant LONGEST => 180;

# What another test, or the person who runs it, has set must not decide.
delete @ENV{grep { /^(?:HOWDAH_(?!BIN$)|PLACK_ENV$)/ } keys %ENV};

sub howdah_bin { return rel2abs($ENV{HOWDAH_BIN} || 'bin/howdah') }

# my ($status, $stdout, $stderr) = run_howdah(@arguments);
sub run_howdah { return run_command(howdah_bin(), @_) }

# The same for several at a time: my $finish = begin_howdah(@arguments); my ($status, $stdout, $stderr) = $finish->();
sub begin_howdah { return _begin(howdah_bin(), @_) }

sub run_command { return _begin(@_)->() }

sub _begin {
    my @command = @_;
    my ($out, $err) = map { File::Temp->new } 1 .. 2;
    my $pid = fork // die "cannot fork: $!";
    if (!$pid) {
        open STDIN, '<', '/dev/null' or die $!;
        open STDOUT, '>&', $out or die $!;
        open STDERR, '>&', $err or die $!;
        alarm LONGEST;
        exec {$command[0]} @command or die "cannot run $command[0]: $!";
    }
    return sub {
        waitpid $pid, 0;
        my $status = $? & 127 ? "signal " . ($? & 127) : $? >> 8;
        return ($status, map { read_file($_) } $out, $err);
    };
}

1;
