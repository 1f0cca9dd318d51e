package Howdah::Generators;
use v5.16;
use warnings;

use Howdah::XS ();

# Modules that seed a generator once for all of a process, and how it begins anew: by another seed, or by being forgotten,
# where the module makes one at its next use.
my @MODULES = (
    ['Data::Entropy'          => \&_forget_entropy],
    ['Math::Prime::Util'      => sub { Math::Prime::Util::csrand() }],
    ['Math::Prime::Util::GMP' => sub { Math::Prime::Util::GMP::seed_csprng(32, _seed(32)) }],
    ['Math::Random::MT::Auto' => sub { Math::Random::MT::Auto::srand('/dev/urandom') }],  # not a server of such numbers
    ['Math::Random::Secure'   => sub { undef $Math::Random::Secure::RNG if $Math::Random::Secure::RNG }],
    ['PDL::Primitive'         => sub { PDL::srand(unpack 'L', _seed(4)) }],
);

# Whose objects are generators, or have one, that a fork copies with their state, and that do not notice it; by the module
# that brings them. xs-fork/fitness.c knows them, too.
my @CLASSES = (
    (map { [$_ => $_] } qw(Math::GSL::RNG Math::Random::ISAAC Math::Random::ISAAC::XS Math::Random::MT)),
    (map { [$_ => $_] } qw(Math::Random::TT800 Session::Token)),
    ['Math::GSL::RNG::gsl_rng' => 'Math::GSL::RNG'],
);

# Keys that draw a number for each signature: two that are made with the same one tell the key. CVE-2026-41564.
my @SIGNERS      = map { [$_ => $_] } qw(Crypt::PK::DSA Crypt::PK::ECC);
my $FIRST_MENDED = 0.088;

# Whether there is anything for renew to do.
sub has_any { return scalar _loaded() }

# In the zygote once the application is loaded, so that what can be forgotten is not inherited, and in each worker.
sub renew {
    for my $module (_loaded()) {
        my ($name, $renew) = @$module;
        local ($@, $!);
        next if eval { local $SIG{__DIE__}; $renew->(); 1 };
        warn "howdah: the random numbers of $name do not begin anew, and may be the same in all workers: $@";
    }
    return;
}

# The classes of objects that cannot begin anew.
sub classes { return _with_objects(@CLASSES) }

# Those of keys.
sub signers {
    local $@;
    return if !$INC{'CryptX.pm'} || eval { CryptX->VERSION($FIRST_MENDED); 1 };
    return _with_objects(@SIGNERS);
}

# The memory is looked through only where such a module is loaded.
sub _with_objects {
    return map { $_->[0] } grep { _is_loaded($_->[1]) && Howdah::XS::has_object($_->[0]) } @_;
}

sub _loaded {
    return grep { _is_loaded($_->[0]) } @MODULES;
}

sub _is_loaded { return $INC{$_[0] =~ s{::}{/}gr . '.pm'} }

# The source that it makes by itself is a variable of its file, and one that is named goes before that.
sub _forget_entropy {
    return if !defined $Data::Entropy::entropy_source;
    $Data::Entropy::entropy_source = sub {
        my $counter = Data::Entropy::RawSource::CryptCounter->new(Crypt::Rijndael->new(_seed(32)));
        return Data::Entropy::Source->new($counter, 'getc');
    };
    return;
}

sub _seed {
    my $length = shift;
    open my $random, '<:raw', '/dev/urandom' or die "cannot open /dev/urandom: $!\n";
    my $read = sysread($random, my $seed, $length);
    die "cannot read /dev/urandom: $!\n" if ($read // 0) != $length;
    return $seed;
}

1;

__END__

=encoding utf-8

=head1 NAME

Howdah::Generators - random number generators that a fork copies

=head1 SYNOPSIS

  Howdah::Generators->renew if Howdah::Generators->has_any;
  warn "an object of $_\n" for Howdah::Generators->classes;

=head1 DESCRIPTION

A generator that was seeded while the application was loaded gives all workers the same numbers: the same session ids, the same
salts. Those that a module keeps for itself begin anew in each worker. Objects that the application has made are found, for
L<Howdah::Inherited> to tell of, and for L<Howdah::Refork>.

=head2 has_any

Whether a module is loaded whose generator is to begin anew.

=head2 renew

Has the generators of these modules begin anew in this process.

=head2 classes

Of which classes, whose objects have the state of a generator and do not notice a fork, there is an object.

=head2 signers

The same of keys, which draw a number for each signature. CryptX does so anew after a fork from 0.088 on.

=cut
