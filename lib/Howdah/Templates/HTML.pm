package Howdah::Templates::HTML;
use v5.16;
use warnings;

use parent 'Howdah::Templates::Engine';

# What is compiled is kept by the class, not by an object.
sub new {
    my ($class, $engine, %options) = @_;
    return bless {engine => ref $engine || $engine, options => {cache => 1, %options}}, $class;
}

sub compile {
    my ($self, $name) = @_;
    return $self->{engine}->new(%{$self->{options}}, filename => $name);
}

# "HTML::Template->new() : what at /srv/a.html : line 3." A tag that is never closed is missed at the end, without a line.
sub explain {
    my ($self, $error, $file) = @_;
    my ($message) = $error =~ /\AHTML::Template->new\(\) : (.*)/s;
    return ($2, $3, $1) if ($message // '') =~ /\A(.*) at ([^\n]+) : line (\d+)/s;
    $message = ($message // $error) =~ s/ at \S+ line \d+\.\n.*//sr;
    return ($file, $message =~ /at end of file/ ? _lines($file) : 1, $message);
}

sub keeps { return $_[0]{options}{cache} || $_[0]{options}{double_file_cache} }

sub paths {
    my $path = $_[0]{options}{path};
    return ref $path ? @$path : $path // ();
}

sub _lines {
    my $file = shift;
    open my $in, '<', $file or return 1;
    1 while <$in>;
    return $.;
}

1;

__END__

=encoding utf-8

=head1 NAME

Howdah::Templates::HTML - how HTML::Template compiles

=head1 SYNOPSIS

  use Howdah::Templates qw(precompile);    # which loads this

=head1 DESCRIPTION

For L<Howdah::Templates>, which says what holds for this engine. What is not told here is as in
L<Howdah::Templates::Engine>.

=head2 new($class, %options)

Keeps the options; there is no object.

=head2 compile($name, $file)

Makes an object with the options, which leaves what it has parsed with the class. Dies as the engine does.

=head2 explain($error, $file)

File, line and message of what C<compile> died of.

=head2 keeps($count)

True, unless C<cache> and C<double_file_cache> are switched off.

=head2 paths

The option C<path>; nothing when it is not set.

=cut
