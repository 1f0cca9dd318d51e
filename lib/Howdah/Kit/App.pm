package Howdah::Kit::App;
use v5.16;
use warnings;

# An application that is built: a PSGI application, and the ways to serve it (Howdah::Kit::Serve). A request goes through
# the middleware to _answer, which finds the handler, and makes of what that returns what PSGI wants.
use Scalar::Util qw(blessed);

use Howdah::Kit::Blame qw(croak);
use Howdah::Kit::Context ();
use Howdah::Kit::Need ();
use Howdah::Kit::Routes ();
use Howdah::Kit::Serve ();
use Howdah::Kit::Session ();

# Plack's middleware asks whether it can be called, and servers call it.
use overload '&{}' => sub { my $self = shift; return $self->to_app }, 'bool' => sub { 1 }, fallback => 1;

sub new {
    my ($class, %wish) = @_;
    my $self   = bless {kit => $wish{kit}, code => $wish{code}}, $class;
    my @routes = (_list(routes => $wish{routes}), $wish{kit}->routes);
    $self->{routes}      = Howdah::Kit::Routes->new($wish{kit}, @routes) if @routes;
    $self->{development} = $wish{development} // ($ENV{PLACK_ENV} // '') eq 'development';
    $self->{app}         = $self->_wrapped(%wish);
    return $self;
}

sub cache {
    my ($self, $name) = @_;
    my $class = ref $self->{kit};
    return $class->keep($name // $class, $self);
}

sub core { return $_[0]{kit}->core }

sub run { my $self = shift; return Howdah::Kit::Serve::request($self) }

sub start { my ($self, @options) = @_; return Howdah::Kit::Serve::start($self, @options) }

sub to_app { return $_[0]{app} }

sub _list {
    my ($name, $value) = @_;
    croak "the option $name is a reference to an array" if ref($value // []) ne 'ARRAY';
    return @{$value // []};
}

# Errors are caught inside of the middleware, so that it sees a response; but a trace can be made only by who sees them.
sub _wrapped {
    my ($self, %wish) = @_;
    my %parts  = map { $_ => $self->{$_} } qw(kit code routes development);
    my $app    = sub { my $env = shift; return _answer(\%parts, $env) };
    my @around = map { ref $_ eq 'ARRAY' ? $_ : [$_] } _list(middleware => $wish{middleware});
    push @around, Howdah::Kit::Session::middleware($wish{session}) if defined $wish{session};
    push @around, ['StackTrace'] if $self->{development};
    for my $layer (reverse @around) {
        my ($name, @options) = @$layer;
        my $class = $name =~ s/^\+// ? $name : "Plack::Middleware::$name";
        $app = Howdah::Kit::Need->load($class, "the application wants the middleware $name")->wrap($app, @options);
    }
    return $app;
}

sub _answer {
    my ($parts, $env) = @_;
    my $c      = Howdah::Kit::Context->new(env => $env, core => $parts->{kit}->core);
    my $answer = eval { _psgi($c, scalar _handle($parts, $c)) };
    return $answer if $answer;
    my $error = $@;
    return $error->finalize if blessed($error) && $error->can('finalize');
    die $error if $parts->{development} || ref $error eq 'Howdah::ClientGone';    # there is nobody to answer
    my $text = "$error" =~ s/\n*\z/\n/r;
    $env->{'psgi.errors'}->print("$env->{REQUEST_METHOD} $env->{PATH_INFO}: $text");
    return $c->error(500)->finalize;
}

sub _handle {
    my ($parts, $c)       = @_;
    my ($handler, @found) = $parts->{routes} ? $parts->{routes}->find($c->env) : ();
    if ($handler) {
        $c->{captures} = $found[0];
        return $handler->($parts->{kit}, $c);
    }
    if (@found) {
        my $response = $c->error(405);
        $response->header(Allow => join ', ', @found);
        return $response;
    }
    return $parts->{code} ? $parts->{code}->($c) : $parts->{kit}->handle($c);
}

# What a handler returned, as PSGI has it.
sub _psgi {
    my ($c, $value) = @_;
    my $where = 'the handler of ' . $c->method . ' ' . ($c->env->{PATH_INFO} // '');
    die "$where returned nothing: return a text, or a response such as \$c->text(...)\n" if !defined $value;
    return $value->finalize if blessed($value) && $value->can('finalize');
    return $value if ref $value eq 'ARRAY' || ref $value eq 'CODE';
    die "$where returned a reference to " . ref($value) . ": for JSON, return \$c->json(...)\n" if ref $value;
    return $c->html($value)->finalize;
}

1;

__END__

=encoding utf-8

=head1 NAME

Howdah::Kit::App - an application that is built, and can be served

=head1 SYNOPSIS

  use Howdah::Kit;

  my $app = Howdah::Kit->build(sub { my $c = shift; return $c->text("Hello\n") });
  $app->start(workers => 10);

=head1 DESCRIPTION

What L<Howdah::Kit/build> returns. It can be called like the code reference that PSGI wants, wrapped by any middleware,
and mounted.

=head2 to_app

The plain code reference.

=head2 run

Answers the one request of a CGI script's environment, on STDOUT. Dies where there is none.

=head2 start(%options)

Loaded as it is, this process becomes a Howdah server; does not return. Options as for L<Plack::Handler::Howdah> (C<<
workers => 10, port => 8080 >>); without an address, C<127.0.0.1:5000>; with a port alone, every address. HUP replaces
workers but cannot load the application anew; C<kit> of L<Howdah::Kit> makes a server that can. In a file that a server
loads it dies, since that would be a server in a server.

=head2 cache($name)

Keeps the application in this process for C<< Howdah::Kit->cache($name) >>, and returns it. Default: the name of its
class. A second one of the same name takes the place of the first.

=head2 core

Its L<Howdah::Kit::Core>: C<< $app->core->get_content('page.tx', {}) >>.

=head2 new(%wish)

Called by C<build>: C<kit> (an object), C<code>, and its options.

=cut
