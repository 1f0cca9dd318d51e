#!/usr/bin/perl
# Handles with names, of files and of a directory, that are left open by a script which ends in another package.
no warnings;
my @open = (defined fileno(SELF) ? 'file' : (), defined fileno(Other::SELF) ? 'file of Other' : (), defined telldir(HERE) ? 'directory' : ());
print "Content-Type: text/plain\n\nopen before: @open\n";
open SELF, '<', $0 or die;
open Other::SELF, '<', $0 or die;
opendir HERE, '.' or die;
package Other;
