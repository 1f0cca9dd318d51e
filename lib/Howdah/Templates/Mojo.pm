package Howdah::Templates::Mojo;
use v5.16;
use warnings;

use parent 'Howdah::Templates::Engine';

# True while templates are compiled: what is compiled then returns at once, instead of rendering.
our $compiling = 0;

sub new {
    my ($class, $engine, %options) = @_;
    my %attributes = ref $engine ? %$engine : ();
    return bless {class => ref $engine || $engine, options => {%attributes, %options}, pages => {}}, $class;
}

sub compile {
    my ($self, $name, $file) = @_;
    my $modified = (stat $file)[9];
    my $page     = $self->{class}->new(%{$self->{options}}, name => $file);
    compile_page($page, $file);
    $self->{pages}{$name} = {page => $page, file => $file, modified => $modified};
    return;
}

# Compiles by a method that reads, parses, compiles and runs. Variables that the template does not declare itself become
# names of the hash that it is rendered with: which ones, only perl can say.
sub compile_page {
    my ($page, $file) = @_;
    my $prepend = $page->prepend;
    local $compiling = 1;
    $page->prepend('return "" if $' . __PACKAGE__ . '::compiling;' . $prepend);
    my (%variables, $output);
    while (ref($output = $page->render_file($file, $page->vars ? {%variables} : ()))) {
        my @new = $page->vars ? grep { !exists $variables{$_} } _undeclared($output) : ();
        last if !@new;
        @variables{@new} = ();
    }
    $page->prepend($prepend);
    die _message($output) . "\n" if ref $output;
    return;
}

sub engine { return $_[0] }
sub paths { return $_[1] }    # templates are named below the directory, whichever it is

# Each name below the directory is a template of its own.
sub names {
    my $self  = shift;
    my @names = sort keys %{$self->{pages}};
    return @names;
}

sub render {
    my ($self, $name, @values) = @_;
    my $known = $self->{pages}{$name} // die "there is no template '$name'\n";
    my $now   = (stat $known->{file})[9] // $known->{modified};
    $self->compile($name, $known->{file}) if $now != $known->{modified};
    my $output = $self->{pages}{$name}{page}->process(@values);
    die $output if ref $output;
    return $output;
}

# A message has each mistake that perl found; those that come from an undeclared variable are no reason.
sub _message {
    my @lines = grep { length } split /\n/, $_[0]->message;
    my ($first) = grep { !/^Global symbol "\$\w+" / } @lines;
    return $first // $lines[0];
}

sub _undeclared { return $_[0]->message =~ /^Global symbol "\$(\w+)" requires explicit package name/mg }

1;

__END__

=encoding utf-8

=head1 NAME

Howdah::Templates::Mojo - templates of Mojo::Template, compiled and kept

=head1 SYNOPSIS

  use Howdah::Templates qw(precompile);

  my $pages = precompile('Mojo::Template', dir => 'templates', options => {vars => 1});
  print $pages->render('shop/cart.html', {items => []});

=head1 DESCRIPTION

A L<Mojo::Template> has one template. This has one for each file below a directory. See L<Howdah::Templates>.

=head2 new($engine, %options)

C<$engine> is the class, or an object; the attributes of each template are those of the object and the options.

=head2 compile($name, $file)

Compiles the file and keeps it by that name. Dies with perl's message.

=head2 compile_page($page, $file)

A function: has C<$page>, a L<Mojo::Template>, compile the file without running it. With C<vars> it finds out which
variables the template expects. Dies with perl's message.

=head2 engine

This object.

=head2 names

The names, in the order of the alphabet: paths below the directory.

=head2 paths($dir)

C<$dir>, so that names begin there.

=head2 render($name, @values)

What the template makes of the values, a string of characters: a reference to a hash if C<vars> is set. Compiles again if
the file is newer; a file that is gone stays as it was compiled. Dies when there is no such name, and with a
L<Mojo::Exception> when the template dies.

=cut
