# Modules that draw random numbers which a fork copies are known in two places: to the zygote of an application and of kept
# scripts, which has them begin anew or tells of them, and to that of one script (mode=fork), which is not forked then.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::File qw(read_file);
use Test::More;

my $name   = qr/[A-Z]\w+(?:::\w+)+/;
my ($perl) = read_file('lib/Howdah/Generators.pm') =~ /^(my \@MODULES .*?)^my \$FIRST_MENDED/ms;
my ($c)    = read_file('xs-fork/fitness.c') =~ /generators\[\] = (\{.*?\n    \});/s;

# By an object of which class a script is found to have drawn from such a module.
my %object = (
    'Data::Entropy'        => 'Data::Entropy::RawSource::CryptCounter',
    'Math::Random::Secure' => 'Math::Random::ISAAC',
);

# To be loaded is not to have drawn, and a script that loads PDL had better be forked: docs/cgi-zygote.md tells what it can see.
my %is_forked = ('PDL::Primitive' => 1);
my %of_perl   = map { ($object{$_} // $_ => 1) } grep { !$is_forked{$_} }
    map { /$name/g } $perl =~ /\['($name)'/g, $perl =~ /qw\((.*?)\)/g;
my %of_c = map { $_ => 1 } $c =~ /\{"($name)"/g;
cmp_ok scalar(keys %of_c), '>=', 13, 'those in xs-fork/fitness.c are found';
is_deeply [sort keys %of_perl], [sort keys %of_c], '... and are those of Howdah::Generators';

done_testing;
