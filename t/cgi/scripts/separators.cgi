#!/usr/bin/perl
# Perl's own variables have their first values.
my @list = (1, 2);
my %pair; $pair{1, 2} = 1;
my $text = join '|', map { defined $_ ? sprintf('%vd', $_) : 'undef' } $/, $\, $,, $;, $", "$|", (keys %pair)[0];
print "Content-Type: text/plain\n\n$text\n@list\n";
print 'error: ', ($@ || 'none'), ' ', 0 + $!, " $?\n";
($/, $\, $,, $;, $") = ('x', "end\n", '+', '-', '/');
$| = 1;
eval { die "left\n" };
system 'false';
$! = 2;
