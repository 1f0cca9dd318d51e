#!/usr/bin/perl
# The umask is the server's.
printf "Content-Type: text/plain\n\nchanged: %s\n", umask == 07 ? 'yes' : 'no';
umask 07;
