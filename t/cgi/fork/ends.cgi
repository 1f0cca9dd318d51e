#!/usr/bin/perl
# Ends by a signal that nothing of ours may catch. What it prints is still in perl's memory: how much of a response is out
# by then would depend on how fast the machine is.
print "Content-Type: text/plain\n\nand then ";
kill USR2 => $$;
select undef, undef, undef, 5;
print "still here\n";
