#!/usr/bin/perl
# The token may stand in a string and in POD, and nowhere else.
print <<'TEXT';
Content-Type: text/plain

__END__
TEXT

=pod

__END__

=cut

print "behind both\n";
