#!/usr/bin/perl
# What the script is called.
use FindBin qw($Script);
use File::Basename;
sub where { return (caller 0)[1] }
print "Content-Type: text/plain\n\n";
print join(' ', map { basename($_) } $0, __FILE__, $Script, where(), $ENV{SCRIPT_FILENAME}), ' ', __LINE__, "\n";
$0 = 'another name';
