#!/usr/bin/perl
# The locale is that of a new process.
use POSIX qw(setlocale LC_ALL LC_TIME);
print "Content-Type: text/plain\n\nlocale: ", setlocale(LC_TIME), "\n";
setlocale(LC_ALL, 'C.UTF-8') or warn "there is no C.UTF-8\n";
