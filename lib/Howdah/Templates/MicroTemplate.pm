package Howdah::Templates::MicroTemplate;
use v5.16;
use warnings;

use parent 'Howdah::Templates::Engine';

sub compile {
    my ($self, $name) = @_;
    return $self->{engine}->build_file($name);
}

# "what at line 3 in template passed from FILE at line 85.", which is a place in the engine.
sub explain {
    my ($self, $error, $file) = @_;
    my ($message, $line) = $error =~ /\A(.*?) at line (\d+) in template passed from /s;
    return $line ? ($file, $line, $message) : $self->SUPER::explain($error, $file);
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

=head2 explain($error, $file)

File, line and message of what C<compile> died of.

=head2 keeps($count)

True, unless C<use_cache> is 0.

=head2 paths

Its C<include_path>.

=cut
