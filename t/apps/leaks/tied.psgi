# A tied hash that holds a reference to itself.
use v5.16;

package Register {    ## no critic (RequireFilenameMatchesPackage)
    require Tie::Hash;
    our @ISA = 'Tie::ExtraHash';
    sub TIEHASH { my $class = shift; return bless [{}, @_], $class }
}

sub {
    tie my %register, 'Register';
    $register{self} = \%register;
    delete $register{self} if $ENV{MENDED};
    return [200, [], ['ok']];
};
