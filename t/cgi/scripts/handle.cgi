#!/usr/bin/perl
# A handle with a name, left open and locked.
use Fcntl ':flock';
print "Content-Type: text/plain\n\nopen before: ", (defined fileno(SELF) ? 'yes' : 'no'), "\n";
open SELF, '<', $0 or die;
flock SELF, LOCK_EX | LOCK_NB or print "locked by somebody\n";
