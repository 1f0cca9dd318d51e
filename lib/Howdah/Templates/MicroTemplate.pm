package Howdah::Templates::MicroTemplate;
use v5.16;
use warnings;

use parent 'Howdah::Templates::Engine';

sub compile {
    my ($self, $name) = @_;
    return $self->{engine}->build_file($name);
}

sub keeps { return $_[0]{engine}->use_cache > 0 }
sub paths { return @{$_[0]{engine}->include_path} }

1;

__END__

=encoding utf-8

=head1 NAME

Howdah::Templates::MicroTemplate - how Text::MicroTemplate::File compiles

=head1 SYNOPSIS

  use Howdah::Templates qw(precompile);    # which loads this

=head1 DESCRIPTION

For L<Howdah::Templates>, which says what holds for this engine. What is not told here is as in
L<Howdah::Templates::Engine>.

=head2 compile($name, $file)

Has C<build_file> keep the code. Dies as the engine does.

=head2 keeps($count)

True, unless C<use_cache> is 0.

=head2 paths

Its C<include_path>.

=cut
