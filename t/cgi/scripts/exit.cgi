#!/usr/bin/perl
# exit ends the request, from wherever it is called: here from a sub, inside eval, with a handler for deaths about.
$SIG{__DIE__} = sub { print "a death: @_" };
print "Content-Type: text/plain\n\n";
sub leave { print "leaving\n"; exit 3 }
eval { eval { leave() }; print "inside: still here\n" };
print "still here\n";
