#!/usr/bin/perl
# A page of the error, by CGI::Carp.
use strict;
use CGI::Carp qw(fatalsToBrowser);
eval { die "caught\n" };
die "shown to everybody\n";
