package Howdah::Kit::Renderer;
use v5.16;
use warnings;

# The one place that knows how each template engine is asked. It makes no engine: whoever does can compile all its
# templates at once, before the application is forked.
use Scalar::Util qw(blessed);
use Howdah::Kit::Blame qw(croak);

# Methods of engines, and how they are called. The first that an engine has is used: Mojo::Template has a process that
# means something else.
my @WAYS = (
    [render_file => \&_render_file],
    [process     => \&_process],
    [render      => sub { my ($engine, $name, $variables) = @_; return $engine->render($name, $variables) }],
);

sub new {
    my ($class, $engine) = @_;
    return bless {engine => undef, way => sub { $engine->(@_[1, 2]) }}, $class if ref $engine eq 'CODE';
    my ($way) = grep { blessed($engine) && $engine->can($_->[0]) } @WAYS;
    return bless {engine => $engine, way => $way->[1]}, $class if $way;
    croak 'templates must be an engine with a method render, render_file or process, or a sub, not '
        . (ref $engine || "'$engine'");
}

sub render {
    my ($self, $name, $variables) = @_;
    my $text = $self->{way}->($self->{engine}, $name, $variables);
    die "the template $name gave nothing\n" if !defined $text;
    die "$text\n" if blessed($text) && $text->isa('Mojo::Exception');    # returned, not thrown
    return "$text";
}

# Mojo::Template keeps the name of its first file, and would blame that for what is wrong with others.
sub _render_file {
    my ($engine, $name, $variables) = @_;
    $engine->name($name) if $engine->isa('Mojo::Template');
    return $engine->render_file($name, $variables);
}

# Template Toolkit's.
sub _process {
    my ($engine, $name, $variables) = @_;
    my $text = '';
    $engine->process($name, $variables, \$text) or die "the template $name: " . $engine->error . "\n";
    return $text;
}

1;

__END__

=encoding utf-8

=head1 NAME

Howdah::Kit::Renderer - ask any template engine for a text

=head1 SYNOPSIS

  use Howdah::Kit::Renderer;

  my $renderer = Howdah::Kit::Renderer->new(Text::Xslate->new(path => ['templates']));
  my $text     = $renderer->render('hello.tx', {name => 'world'});

=head2 new($engine)

An engine is an object with C<render_file> (L<Text::MicroTemplate::File>; L<Mojo::Template>, made with
C<< vars => 1 >>), C<process> (L<Template>, made with C<< ENCODING => 'UTF-8' >>) or C<render> (L<Text::Xslate>); or a sub,
called with a name and a reference to a hash of variables, which returns a text. Dies for anything else.

=head2 render($name, \%variables)

The text, in characters. Dies with what the engine says.

=cut
