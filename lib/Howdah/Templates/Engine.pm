package Howdah::Templates::Engine;
use v5.16;
use warnings;

sub new {
    my ($class, $engine, %options) = @_;
    return bless {engine => ref $engine ? $engine : $engine->new(%options), options => \%options}, $class;
}

sub engine { return $_[0]{engine} }

# Most engines say "line 3" somewhere, and the first is where it is.
sub explain {
    my ($self, $error, $file) = @_;
    my $line = $error =~ /\bline (\d+)/ ? $1 : 1;
    return ($file, $line, $error =~ s/\n.*//sr);
}

sub keeps { return 1 }

1;

__END__

=encoding utf-8

=head1 NAME

Howdah::Templates::Engine - what Howdah::Templates wants to know of an engine

=head1 SYNOPSIS

  package Howdah::Templates::Mine;
  use parent 'Howdah::Templates::Engine';

  sub compile { my ($self, $name) = @_; return $self->{engine}->load($name) }
  sub paths   { my $self = shift; return $self->{engine}->directories }

=head1 DESCRIPTION

One class for each engine, which inherits from this. They have C<compile($name, $file)>, which dies when the template does
not compile, and C<paths($dir)>: the directories below which the engine's names begin, or none when its names are paths.

=head2 new($engine, %options)

C<$engine> is an object, or a class, of which one is made with the options.

=head2 engine

What renders the templates.

=head2 explain($error, $file)

File, line and message: a guess from the message's first line, whose first "line 3" is taken for the place. Line 1 when
there is none.

=head2 keeps($count)

Whether the engine keeps so many templates in memory. True here.

=cut
