package Howdah::Kit;
use v5.16;
use warnings;

# What a file that is an application says. It puts options in order and hands them to Howdah::Kit::App, which has the
# request; how the application is served is in Howdah::Kit::Serve.
use Exporter qw(import);
use Scalar::Util ();

use Howdah::Kit::Blame qw(croak);
use Howdah::Kit::App ();
use Howdah::Kit::Core ();
use Howdah::Kit::Serve ();

our $VERSION = '0.001';
our @EXPORT  = qw(kit);    ## no critic (ProhibitAutomaticExportation)

my %KNOWN = map { $_ => 1 } qw(development middleware routes session templates);

# Those that wait for scripts, by name.
my %kept;

# Callable as Howdah::Kit::build(sub {...}), too.
sub build {
    my ($class, $code, %options) = _invocation(@_);
    %options = ($class->options, %options);
    _check($class, \%options);
    my $core = Howdah::Kit::Core->new(templates => delete $options{templates});
    my $self = $class->new(core => $core);
    return Howdah::Kit::App->new(kit => $self, code => $code, %options);
}

sub cache {
    my ($class, $name) = @_;
    $name //= $class;
    return $kept{$name} if $kept{$name};
    croak qq{no application is kept as $name in this process: have $class->build(...)->cache}
        . ($name eq $class ? '' : qq{('$name')})
        . ' run before the first script does (docs/kit.md, "How do scripts share an application?")';
}

sub core {
    my ($self, %options) = @_;
    return $self->{core} if ref $self;
    return Howdah::Kit::Core->new(%options);
}

sub handle { my ($self, $c) = @_; return $c->error(404) }

# Called by Howdah::Kit::App->cache.
sub keep { my ($class, $name, $app) = @_; $kept{$name} = $app; return $app }

sub kit { return Howdah::Kit::Serve::file(@_) }

sub new { my ($class, %parts) = @_; return bless {%parts}, $class }

sub options { return () }

sub psgi_app { goto &build }

sub routes { return () }

sub run { return build(@_)->run }

sub start {
    my ($class) = @_;
    croak "$class->start starts what was built: $class->psgi_app(...)->start(workers => 10)";
}

sub _check {
    my ($class, $options) = @_;
    my @strange = sort grep { !$KNOWN{$_} } keys %$options;
    croak "$class has no option $strange[0]: there are " . join ', ', sort keys %KNOWN if @strange;
    return;
}

# The class, the code if there is any, and options, of a call with or without a class.
sub _invocation {
    my @arguments = @_;
    my $class     = ref $arguments[0] || !defined $arguments[0] ? __PACKAGE__ : shift @arguments;
    croak "'$class' is not a class that inherits from Howdah::Kit: write Howdah::Kit->build(...)"
        if !eval { $class->isa(__PACKAGE__) };
    my $code = ref $arguments[0] ? shift @arguments : undef;
    croak 'an application is a sub, not a reference to ' . ref $code
        if $code && (Scalar::Util::reftype($code) // '') ne 'CODE';
    croak "$class->build takes pairs of name and value behind the sub" if @arguments % 2;
    return ($class, $code, @arguments);
}

1;

__END__

=encoding utf-8

=head1 NAME

Howdah::Kit - one file that is a web application

=head1 SYNOPSIS

A sub, in F<hello.psgi>:

  use Howdah::Kit;

  Howdah::Kit->psgi_app(sub {
      my $c = shift;
      my $name = $c->param('name') // 'world';
      return $c->text("Hello $name\n");
  });

Or a class, which the same few words serve in other ways:

  package Notes;
  use parent 'Howdah::Kit';

  sub routes {
      return (
          'GET /'          => 'index',
          'GET /note/:id'  => 'show',
          'POST /note'     => sub { my ($self, $c) = @_; return $c->redirect('/') },
      );
  }
  sub index { my ($self, $c) = @_; return '<h1>Notes</h1>' }
  sub show  { my ($self, $c) = @_; return $c->json({id => $c->param('id')}) }

  package main;

  Notes->psgi_app;                        # the value of a .psgi file
  Notes->run;                             # a CGI script
  Notes->psgi_app->start(workers => 10);  # a server
  Notes->build->cache;                    # kept in a process, and in each script of it:
  Notes->cache->run;

In a shell:

  perl -MHowdah::Kit -e 'kit "hello.psgi", workers => 10'

=head1 DESCRIPTION

A few lines between a file and PSGI, made of L<Plack::Request>, L<Plack::Response> and, when there are routes,
L<Router::Simple>. What a handler is given is a L<Howdah::Kit::Context>, and what it may return stands there.
F<docs/kit.md> of the distribution answers by question.

C<use Howdah::Kit> exports C<kit>. Errors of use die at once, from the caller's line.

=head1 FUNCTIONS

=head2 kit($file, %options)

Becomes the C<howdah> command, which serves that F<.psgi> file; does not return. Options are those of C<howdah --help>
with underscores for dashes (C<< workers => 10, port => 8080 >>); without an address it listens on C<127.0.0.1:5000>,
with a port alone on every address. Modules are looked for where this perl does. Dies when there is no such file, and
when a name has no value.

=head1 CLASS METHODS

=head2 build($code, %options), psgi_app($code, %options)

The application, a L<Howdah::Kit::App>: as good as a code reference wherever PSGI wants one. Both names mean the same, and
both can be called as functions. C<$code> is called as C<< $code->($c) >> for what no route takes; without it, C<handle>
is. Dies for an unknown option, a route that names no method, and a module that is needed and missing.

=over 4

=item routes => ['METHOD PATTERN' => HANDLER, ...]

Looked at before those of C<routes>; what that says.

=item session => {secret => TEXT, ...}

Sessions in a signed cookie, by L<Plack::Middleware::Session::Cookie>. They are the same for all workers, and at most
some 3,000 bytes; their user can read and not change them. Other options of that module may stand beside C<secret>.
C<< {store => ..., state => ...} >> instead is for L<Plack::Middleware::Session>. Its default store is one worker's
memory, so C<store> must be given. Default: no sessions.

=item middleware => [NAME, [NAME => %options], ...]

Plack's middleware, the first outermost.

=item templates => ENGINE

What C<< $c->render >> and C<get_content> ask; L<Howdah::Kit::Renderer> says what is one.

=item development => BOOLEAN

Whether an error is shown as a page with a stack trace, rather than as C<500 Internal Server Error>. It is written to
C<psgi.errors> either way. Default: whether C<PLACK_ENV> is C<development>.

=back

=head2 run($code, %options)

Builds the application and answers the one request that the environment of a CGI script describes.

=head2 cache($name)

The application that C<< build(...)->cache($name) >> has kept in this process. Default: the name of the class. Dies when
there is none.

=head2 core(%options)

A L<Howdah::Kit::Core> without an application: C<< Howdah::Kit->core(templates => $engine)->get_content('x.tx', {}) >>.
Of an object, that of its application.

=head2 keep($name, $app)

Keeps an application for C<cache>; L<Howdah::Kit::App> calls it.

=head2 start

Dies, and says what to write: it is what was built that starts.

=head1 METHODS FOR CLASSES TO OVERRIDE

=head2 routes

A list of C<< 'METHOD PATTERN' => HANDLER >>. Default: none.

The method may be several, C<GET|POST>, or missing, which means any; GET answers HEAD, too. A pattern is one of
L<Router::Simple>'s: C</note/:id>, C</{year:[0-9]+}/*>. A handler is a sub or the name of a method, called with the object
and the L<Howdah::Kit::Context>. The first that matches is called. A path that matches by another method only is answered
by 405 with C<Allow>.

=head2 handle($c)

For what no route takes. Default: 404.

=head2 options

Options of C<build>, which those given there come before. Default: none.

=head2 new(%parts)

The object whose methods are called: one for all requests of a process, so what belongs to one request belongs into
C<$c>.

=cut
