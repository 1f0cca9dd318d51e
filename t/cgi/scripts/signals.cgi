#!/usr/bin/perl
# Handlers of signals, warnings and deaths are those of a new process, whichever of them the last request has set.
print "Content-Type: text/plain\n\nleft:";
for my $name (qw(ALRM CHLD TERM URG USR1 WINCH __DIE__ __WARN__)) {
    my $handler = $SIG{$name} // next;
    print " $name" if grep { $handler eq $_ } \&mine, 'main::mine', 'IGNORE';
}
print "\n";
sub mine { exit if $_[0] =~ /die here/ }
my ($name, $handler) = $ENV{QUERY_STRING} =~ /(\w+)=(\w+)/ or exit;
$SIG{$name} = $handler eq 'code' ? \&mine : $handler;
die "die here\n" if $name eq '__DIE__' && $handler eq 'code';
exit 0;
