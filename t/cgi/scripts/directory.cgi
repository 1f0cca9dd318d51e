#!/usr/bin/perl
# The working directory is the script's own, whatever it did the last time.
use strict;
use Cwd ();
my $here = Cwd::getcwd();
chdir '/' or die;
$here =~ s{.*/}{};
print "Content-Type: text/plain\n\nin $here, has itself: ", (-e "/$here" ? 'odd' : 'no'), "\n";
