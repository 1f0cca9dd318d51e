package Howdah::Templates::Toolkit;
use v5.16;
use warnings;

use parent 'Howdah::Templates::Engine';

sub compile {
    my ($self, $name) = @_;
    return $self->{engine}->context->template($name);
}

# "file error - parse error - shop/cart.tt line 3-5: what"
sub explain {
    my ($self, $error, $file) = @_;
    my ($line, $message) = $error =~ /parse error - .*? line (\d+)(?:-\d+)?: (.*)/s;
    return $line ? ($file, $line, $message) : $self->SUPER::explain($error, $file);
}

# A cache that is too small would forget the first templates while the last are compiled.
sub keeps {
    my ($self, $count) = @_;
    my ($least) = sort { $a <=> $b } grep { defined } map { $_->{SIZE} } $self->_providers;
    return 1 if !defined $least || $least >= $count;
    return 0 if !$least;
    die "CACHE_SIZE of Template is $least, less than the $count templates to keep: leave it out, or raise it\n";
}

sub paths {
    my $self = shift;
    return map { @{$_->paths // []} } grep { $_->can('paths') } $self->_providers;
}

sub _providers { return @{$_[0]{engine}->context->load_templates} }

1;

__END__

=encoding utf-8

=head1 NAME

Howdah::Templates::Toolkit - how Template Toolkit compiles

=head1 SYNOPSIS

  use Howdah::Templates qw(precompile);    # which loads this

=head1 DESCRIPTION

For L<Howdah::Templates>, which says what holds for this engine. What is not told here is as in
L<Howdah::Templates::Engine>.

=head2 compile($name, $file)

Has the context fetch the template, whose provider then keeps it. Dies as the engine does.

=head2 explain($error, $file)

File, line and message of what C<compile> died of.

=head2 keeps($count)

False when C<CACHE_SIZE> is 0; dies when it is less than C<$count>.

=head2 paths

The C<INCLUDE_PATH> of all providers.

=cut
