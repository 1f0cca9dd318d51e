#!/usr/bin/perl
# What BEGIN blocks have done lasts, and is done once in each process.
BEGIN { print "Content-Type: text/plain\n\nfrom BEGIN\n" }
BEGIN { $ENV{PATH} = '/bin:/usr/bin'; $ENV{SET_BY_BEGIN} = 1; delete $ENV{DOCUMENT_ROOT}; umask 027; chdir '/' }
BEGIN { $SIG{TERM} = sub { print "term\n" }; $SIG{PIPE} = 'IGNORE'; $/ = ''; $, = '-' }
BEGIN { binmode STDOUT, ':utf8'; open STDERR, '>&STDOUT'; select STDERR; $| = 1; select STDOUT }
my $count = 0;
sub count { return ++$count }
CHECK { $checked++ }
INIT { print "INIT ", count(), "\n" }
print chr(233), "\n", map { ($_, exists $ENV{$_} ? 'is' : 'is not', "there\n") } qw(PATH SET_BY_BEGIN DOCUMENT_ROOT QUERY_STRING);
print `printenv PATH`, grep { /^PATH=/ } split /^/, `env`;
printf "%03o %s %d %s\n", umask, `pwd`, $checked, $ENV{PATH};
print 'count', count(), eval q{count() . "\n"};
kill TERM => $$;
print "pipe $SIG{PIPE}\n";
$? = 0;
warn "a warning\n";
END { print "END ${^GLOBAL_PHASE} $?\n" }
sub DESTROY { print "destroyed ${^GLOBAL_PHASE}\n" }
our $object = bless {};
