package Howdah::Templates::Xslate;
use v5.16;
use warnings;

use parent 'Howdah::Templates::Engine';

sub compile {
    my ($self, $name) = @_;
    return $self->{engine}->load_file($name);
}

# "Text::Xslate::Syntax::Kolon: what, while parsing templates (/srv/a.tx:4) at app.psgi line 1."
sub explain {
    my ($self, $error, $file)    = @_;
    my ($message, $place, $line) = $error =~ /\A(.*?) \(([^\n()]+):(\d+)\) at /s;
    return $line ? ($place, $line, $message) : $self->SUPER::explain($error, $file);
}

sub keeps { return $_[0]{engine}{cache} > 0 }

sub paths {
    return grep { !ref } @{$_[0]{engine}{path}};
}

1;

__END__

=encoding utf-8

=head1 NAME

Howdah::Templates::Xslate - how Text::Xslate compiles

=head1 SYNOPSIS

  use Howdah::Templates qw(precompile);    # which loads this

=head1 DESCRIPTION

For L<Howdah::Templates>, which says what holds for this engine. What is not told here is as in
L<Howdah::Templates::Engine>.

=head2 compile($name, $file)

Has C<load_file> put the template into the object. Dies as the engine does.

=head2 explain($error, $file)

File, line and message of what C<compile> died of.

=head2 keeps($count)

True, unless C<cache> is 0.

=head2 paths

Its C<path>, without those that are hashes.

=cut
