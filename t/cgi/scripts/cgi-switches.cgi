#!/usr/bin/perl
# A switch of CGI.pm that is set when it is loaded, and one that the script sets.
use CGI qw(-no_undef_params);
my $q = CGI->new;
print $q->header('text/plain'), 'names: ', join(' ', sort $q->param), "\nfiles are removed: $CGI::UNLINK_TMP_FILES\n";
$CGI::UNLINK_TMP_FILES = 0;
