#!/usr/bin/perl
# A script may have the token inside a string, and the real one below; what follows it is read by DATA, too.
print <<'TEXT';
Content-Type: text/plain

__END__
TEXT
print <DATA>;
__END__
below
=head1 NOT POD

__DATA__
