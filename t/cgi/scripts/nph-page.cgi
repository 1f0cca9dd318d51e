#!/usr/bin/perl
# The script writes the status line itself.
print "HTTP/1.0 203 As Told\r\nContent-Type: text/plain\r\nConnection: close\r\nX-Nph: yes\r\n\r\nall of it\n";
