# Objects of a module that is written in C.
use v5.16;
use Digest::MD5;
my @digests;

sub {
    my $env    = shift;
    my $digest = Digest::MD5->new;
    $digest->add($env->{PATH_INFO});
    push @digests, $digest if !$ENV{MENDED};
    return [200, [], ['ok']];
};
