package Howdah::Kit::Blame;
use v5.16;
use warnings;

# croak, for all of the kit. Carp's passes over classes that inherit from the one that complains, so for an application
# that is one file with one class it finds nobody to blame.
use Exporter qw(import);

our @EXPORT_OK = qw(croak);

sub croak {
    my $message = shift;
    my $depth   = 0;
    $depth++ while (caller $depth) && (caller $depth)[0] =~ /^Howdah::Kit(?:::|\z)/;
    my (undef, $file, $line) = caller $depth;
    die defined $file ? "$message at $file line $line.\n" : "$message\n";
}

1;

__END__

=encoding utf-8

=head1 NAME

Howdah::Kit::Blame - die, from the line that was wrong

=head1 SYNOPSIS

  use Howdah::Kit::Blame qw(croak);

  croak 'which template? give its name';

=head2 croak($message)

Dies with the message and the place of the nearest caller that is not of the kit.

=cut
