#!/usr/bin/perl
# A local redirect: the answer is that of the other script.
print "Location: $ENV{SCRIPT_NAME}\n\n" =~ s{redirect\.cgi}{meta.cgi/after?from=redirect}r;
