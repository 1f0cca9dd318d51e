package Howdah::Kit::Core;
use v5.16;
use warnings;

# The parts of the kit that know of no request, so a program that is no web application can use them alone.

use Howdah::Kit::Blame qw(croak);
use Howdah::Kit::Renderer ();

# The fast ones first; all have the same methods.
my @JSON = qw(Cpanel::JSON::XS JSON::XS JSON::PP);

sub new {
    my ($class, %options) = @_;
    my $templates = delete $options{templates};
    my ($strange) = sort keys %options;
    croak "core has no option $strange: there is templates" if defined $strange;
    return bless {renderer => defined $templates ? Howdah::Kit::Renderer->new($templates) : undef}, $class;
}

sub decode_json { my ($self, $bytes) = @_; return $self->_json->decode($bytes) }

sub encode_json { my ($self, $data) = @_; return $self->_json->encode($data) }

sub get_content {
    my ($self, $name, $variables) = @_;
    croak 'there is nothing to render templates: build with templates => ENGINE (man Howdah::Kit::Renderer)'
        if !$self->{renderer};
    croak 'which template? get_content is given a name' if !defined $name || !length $name;
    croak 'variables of a template are a reference to a hash' if ref($variables // {}) ne 'HASH';
    return $self->{renderer}->render($name, $variables // {});
}

sub _json {
    my $self = shift;
    return $self->{json} //= do {
        my ($class) = grep {
            my $file = s{::}{/}gr . '.pm';
            eval { require $file }
        } @JSON;
        $class->new->utf8->canonical->allow_nonref;
    };
}

1;

__END__

=encoding utf-8

=head1 NAME

Howdah::Kit::Core - templates and JSON without a request

=head1 SYNOPSIS

  use Howdah::Kit;

  my $core = Howdah::Kit->core(templates => Text::Xslate->new(path => ['templates']));
  print $core->get_content('mail.tx', {name => 'Ada'});

=head2 new(%options)

C<templates>: see L<Howdah::Kit::Renderer>. Another option is an error.

=head2 get_content($name, \%variables)

The text of a template, in characters. Dies as the engine does, or when there is none.

=head2 encode_json($data), decode_json($bytes)

JSON in UTF-8, the keys of objects in order. By L<Cpanel::JSON::XS>, L<JSON::XS> or L<JSON::PP>, the first that is
installed. They die for what they cannot write or read.

=cut
