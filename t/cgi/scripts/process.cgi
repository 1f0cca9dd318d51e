#!/usr/bin/perl
# A process, and a group, of one's own.
print "Content-Type: text/plain\n\n";
print 'leads its group: ', (getpgrp == $$ ? 'yes' : 'no'), "\n";
