#!/usr/bin/perl
# Handlers of signals, warnings and deaths are those of a new process.
print "Content-Type: text/plain\n\n";
print "$_: ", (ref $SIG{$_} || $SIG{$_} || '') =~ /^mine|CODE$/ && $left++ ? 'left' : 'none', "\n"
    for qw(ALRM WINCH __WARN__ __DIE__);
sub mine { }
$SIG{$_} = 'mine' for qw(ALRM WINCH);
$SIG{$_} = sub { mine() } for qw(__WARN__ __DIE__);
$left = 0;
