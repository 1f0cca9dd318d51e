#!/usr/bin/perl
# Ends by a signal that nothing of ours may catch.
$| = 1;
print "Content-Type: text/plain\n\nand then ";
kill USR2 => $$;
select undef, undef, undef, 5;
print "still here\n";
