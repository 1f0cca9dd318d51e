package Howdah::ZygoteSpec;
use v5.16;
use warnings;

# The fields that there are, each as often as it may come.
my %MOST = (
    (map { $_ => 1 } qw(app chdir control default_middleware env eval full_destruct name nytprof path preload)),
    (map { $_ => undef } qw(inc modules)),
);

# Written by crates/supervisor/src/spec.rs.
sub read {    ## no critic (ProhibitBuiltinHomonyms)
    my ($class, $text) = @_;
    my %spec = (inc => [], modules => []);
    for my $field (split /&/, $text, -1) {
        my ($name, $value) = $field =~ m{\A(\w+)=((?:[\w./:-]|%[0-9A-F]{2})*)\z}a or _refuse();
        _refuse() if !exists $MOST{$name} || defined $MOST{$name} && exists $spec{$name};
        $value =~ s/%(..)/chr hex $1/ge;
        if ($MOST{$name}) { $spec{$name} = $value }
        else { push @{$spec{$name}}, $value }
    }
    return %spec;
}

sub _refuse { die "the specification of a zygote is not what the howdah command writes\n" }

1;

__END__

=encoding utf-8

=head1 NAME

Howdah::ZygoteSpec - what a zygote is to load, as the howdah command writes it

=head1 SYNOPSIS

  use Howdah::ZygoteSpec;

  my %spec = Howdah::ZygoteSpec->read('control=3&app=app.psgi&inc=lib&inc=local%20lib&preload=1');

=head1 DESCRIPTION

The command puts the specification of a zygote into its environment. It is written as the fields of a form are, so that
twenty lines read it: a module for JSON would be a megabyte more in every fork.

=head2 read($text)

Returns the fields: C<inc> and C<modules> as references to arrays, the others as strings of bytes, those that are absent not
at all. Dies when C<$text> is nothing that the command writes. See F<docs/zygote-protocol.md>.

=cut
