#!/usr/bin/perl -CSDA
# Switches that change handles and arguments.
print "Content-Type: text/plain\n\n${^UNICODE} ", join(' ', map { length . ":$_" } @ARGV), "\n";
print map(join(' ', PerlIO::get_layers($_)) . "\n", *STDIN, *STDOUT, *STDERR), length(my $line = <STDIN>), "\n";
