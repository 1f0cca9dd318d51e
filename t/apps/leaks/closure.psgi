# A recursive closure that refers to itself.
use v5.16;
use Scalar::Util 'weaken';

sub {
    my $factorial;
    $factorial = sub {
        my $n = shift;
        return $n < 2 ? 1 : $n * $factorial->($n - 1);
    };
    my $result = $factorial->(5);
    weaken $factorial if $ENV{MENDED};
    return [200, [], [$result]];
};
