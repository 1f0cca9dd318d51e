#!/usr/bin/perl
# END blocks run at each request, the last first, and see the status of exit.
our $said = 'printed';
print "Content-Type: text/plain\n\n";
END { print "first, $said, last\n" }
END { print "status $?\n"; $? = 0 }
print "body\n";
exit 4;
