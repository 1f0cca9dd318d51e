package Howdah::Templates::Mojolicious;
use v5.16;
use warnings;

use parent 'Howdah::Templates::Engine';

use Howdah::Templates::Mojo ();

# Through the renderer's own handler, which exports helpers and keeps the template; only its last step is another.
sub compile {
    my ($self, $name, $file) = @_;
    my $renderer = $self->{engine}->renderer;
    my ($template, $format, $handler) = $name =~ /\A(.*?)\.([^.\/]+)\.(\w+)\z/s
        or die "a template of Mojolicious has a name like index.html.ep\n";
    my $code = $renderer->handlers->{$handler} // die "there is no handler for $handler\n";
    my $read = 0;
    local $self->{engine}->log->{level} = 'warn';    # nothing is rendered yet, whatever the handler says
    no warnings 'redefine';
    local *Mojo::Template::render_file = _instead(\&Mojo::Template::render_file, \$read);
    $code->(
        $renderer, $self->{engine}->build_controller,
        \my $output, {template => $template, format => $format, handler => $handler}
    );
    die "the handler $handler does not compile by Mojo::Template\n" if !$read;
    return;
}

# Mojolicious keeps 100 templates, if it is not told otherwise, and none in development.
sub keeps {
    my ($self, $count) = @_;
    my $cache = $self->{engine}->renderer->cache;
    return 0 if $cache->max_keys <= 0;
    $cache->max_keys($cache->max_keys + $count);
    return 1;
}

sub paths {
    return map { "$_" } @{$_[0]{engine}->renderer->paths};
}

sub _instead {
    my ($original, $read) = @_;
    return sub {
        my ($page, $file) = @_;
        $$read = 1;
        no warnings 'redefine';
        local *Mojo::Template::render_file = $original;
        Howdah::Templates::Mojo::compile_page($page, $file);
        return '';
    };
}

1;

__END__

=encoding utf-8

=head1 NAME

Howdah::Templates::Mojolicious - how an application of Mojolicious compiles

=head1 SYNOPSIS

  use Howdah::Templates qw(precompile);    # which loads this

=head1 DESCRIPTION

For L<Howdah::Templates>, which says what holds for this engine. What is not told here is as in
L<Howdah::Templates::Engine>.

=head2 compile($name, $file)

Has the handler compile the file, as for a request, but not run it. Dies as the engine does.

=head2 keeps($count)

False when the renderer is to keep nothing; otherwise makes room for C<$count> more templates.

=head2 paths

The C<paths> of the renderer.

=cut
