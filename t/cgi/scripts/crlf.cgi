#!/usr/bin/perl
# Lines end as on other systems.
print <<"END";
Content-Type: text/plain

two
END
print <DATA>;
__DATA__
data
