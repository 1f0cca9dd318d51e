package Howdah::Kit::Routes;
use v5.16;
use warnings;

# From 'GET /note/:id' => HANDLER to the handler of a request. Router::Simple knows paths; which methods a path has is
# looked up here, since a wrong one is answered by their names.
use Encode ();

use Howdah::Kit::Blame qw(croak);
use Howdah::Kit::Need ();

sub new {
    my ($class, $kit, @routes) = @_;
    croak 'routes are pairs: \'GET /path\' => handler' if @routes % 2;
    my $self = bless {paths => Howdah::Kit::Need->load('Router::Simple', 'routes are matched by it')->new}, $class;
    while (my ($route, $handler) = splice @routes, 0, 2) {
        my ($methods, $pattern) = _parse($route);
        my $place = {handler => _code($kit, $route, $handler), methods => $methods};
        $self->{paths}->connect($pattern, {}, {on_match => sub { _takes($place, @_) }});
    }
    return $self;
}

# (handler, captures); or (undef, methods that the path has).
sub find {
    my ($self, $env) = @_;
    my %others;
    my $path     = length($env->{PATH_INFO} // '') ? $env->{PATH_INFO} : '/';
    my %asked    = (PATH_INFO => $path, REQUEST_METHOD => $env->{REQUEST_METHOD}, others => \%others);
    my $captures = $self->{paths}->match(\%asked) or return (undef, sort keys %others);
    return ($asked{handler}, $captures);
}

sub _takes {
    my ($place, $asked) = @_;
    my $methods = $place->{methods};
    if ($methods && !$methods->{$asked->{REQUEST_METHOD}}) {
        $asked->{others}{$_} = 1 for keys %$methods;
        return 0;
    }
    $asked->{handler} = $place->{handler};
    return 1;
}

sub _parse {
    my $route = shift // 'undef';
    my ($methods, $pattern) = $route =~ m{^(?:([A-Z]+(?:\|[A-Z]+)*)\s+)?([/\{:*]\S*)$}
        or croak "'$route' is no route: write 'GET /path', 'GET|POST /path/:name' or '/path' for every method";
    my %methods = map { $_ => 1 } split /\|/, $methods // '';
    $methods{HEAD} = 1 if $methods{GET};
    return (%methods ? \%methods : undef, Encode::encode('UTF-8', $pattern));
}

# A sub that is given the object and the context.
sub _code {
    my ($kit, $route, $handler) = @_;
    return $handler if ref $handler eq 'CODE';
    croak "the route '$route' must lead to a sub or the name of a method"
        if ref $handler || ($handler // '') !~ /^[^\W\d]\w*$/;
    my $class = ref $kit;
    return $kit->can($handler) // croak "the route '$route' leads to the method $handler, which $class does not have";
}

1;

__END__

=encoding utf-8

=head1 NAME

Howdah::Kit::Routes - which handler has a request

=head1 SYNOPSIS

  use Howdah::Kit::Routes;

  my $routes = Howdah::Kit::Routes->new($kit, 'GET /note/:id' => 'show', '/about' => sub { ... });
  my ($handler, $captures) = $routes->find($env);

=head2 new($kit, @routes)

C<@routes> are pairs, as L<Howdah::Kit/routes> explains; names of methods are those of the object C<$kit>. Dies for what is
no route, a method that does not exist, and when L<Router::Simple> is not installed.

=head2 find($env)

A handler and a reference to a hash with what the pattern captured, as bytes; C<splat> has what stars captured. Without a
match, undef and the methods by which that path would match, sorted, if there are any. An empty C<PATH_INFO> is C</>.

=cut
