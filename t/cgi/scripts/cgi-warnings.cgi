#!/usr/bin/perl
# Warnings wait until the script says that they may be printed.
use CGI::Carp qw(warningsToBrowser);
warn "early\n";
print "Content-Type: text/plain\n\n";
warningsToBrowser(1);
warn "late\n";
