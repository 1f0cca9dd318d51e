package Howdah::Kit::Context;
use v5.16;
use warnings;

# One request, and the responses that a handler can make of it. Howdah::Kit::App makes one for each request and gives it
# to the handler. What comes from outside is decoded here, and what goes out is encoded here.
use Encode ();
use Howdah::Kit::Blame qw(croak);
use Howdah::Kit::Request ();

my %REDIRECTS = map { $_ => 1 } 301, 302, 303, 307, 308;

sub new { my ($class, %parts) = @_; return bless {captures => {}, %parts}, $class }

sub core { return $_[0]{core} }

sub env { return $_[0]{env} }

sub error {
    my ($self, $status, $message) = @_;
    croak 'an error needs a status: $c->error(404)' if !defined $status;
    require HTTP::Status;
    return $self->text(($message // HTTP::Status::status_message($status) // "Error $status") . "\n", $status);
}

sub html { my ($self, $text, $status) = @_; return $self->_text('text/html', $text, $status) }

sub json {
    my ($self, $data, $status) = @_;
    return $self->_response('application/json', $self->core->encode_json($data), $status);
}

sub json_body {
    my $self = shift;
    my $data = eval { [$self->core->decode_json($self->req->content)] };
    return $data->[0] if $data;
    die $self->error(400, 'The body of the request is not JSON in UTF-8.');
}

sub method { return $_[0]{env}{REQUEST_METHOD} }

# Always one value, or what stands behind it in a list would take its place.
sub param {
    my ($self, $name) = @_;
    my @values = $self->params($name);
    return $values[-1];
}

sub params {
    my ($self, $name) = @_;
    croak 'which parameter? give its name' if !defined $name;
    my $captured = $self->{captures}{$name};
    my @values =
          ref $captured ? @$captured
        : defined $captured ? $captured
        : $self->req->parameters->get_all(Encode::encode('UTF-8', $name));
    return map { $self->_decoded($name, $_) } @values;
}

sub path { my $self = shift; return $self->_decoded('path', $self->{env}{PATH_INFO} // '') }

sub redirect {
    my ($self, $location, $status) = @_;
    $status //= 302;
    croak "$status is not the status of a redirect: " . join ', ', sort keys %REDIRECTS if !$REDIRECTS{$status};
    croak 'a redirect needs a place to go to' if !defined $location || !length $location;
    my $response = $self->text('', $status);
    $response->location($self->url($location));
    return $response;
}

sub render { my ($self, $name, $variables) = @_; return $self->html($self->core->get_content($name, $variables)) }

sub req { return $_[0]{req} //= Howdah::Kit::Request->new($_[0]{env}) }

sub session {
    my $self = shift;
    return $self->{env}{'psgix.session'}
        // croak 'there is no session: build the application with session => {secret => ...}';
}

sub text { my ($self, $text, $status) = @_; return $self->_text('text/plain', $text, $status) }

sub url {
    my ($self, $location) = @_;
    croak 'an address has no line breaks or other control characters' if $location =~ /[\x00-\x1f\x7f]/;

    # Browsers take a backslash for a slash, and with two of those a name for a server's.
    my $bytes = Encode::encode('UTF-8', $location) =~ s/([^!-~]|[<>"\\^`{|}])/sprintf '%%%02X', ord $1/gers;
    return $bytes if $bytes !~ m{^/(?!/)};
    my $here = ($self->{env}{SCRIPT_NAME} // '') =~ s{/+\z}{}r;
    return $here =~ s{([^A-Za-z0-9_.~!\$&'()*+,;=:@/-])}{sprintf '%%%02X', ord $1}gers . $bytes;
}

sub _decoded {
    my ($self, $name, $bytes) = @_;
    my $text = eval { Encode::decode('UTF-8', $bytes, Encode::FB_CROAK | Encode::LEAVE_SRC) };
    return $text // die $self->error(400, "What the request says for '$name' is not UTF-8.");
}

sub _response {
    my ($self, $type, $bytes, $status) = @_;
    croak "a status is a number from 200 to 599, not '$status'" if defined $status && $status !~ /^[2-5]\d\d\z/;
    my $response = $self->req->new_response($status // 200, ['Content-Type' => $type]);
    $response->content_length(length $bytes) if $response->status !~ /^(?:204|304)$/;
    $response->body($bytes);
    return $response;
}

sub _text {
    my ($self, $type, $text, $status) = @_;
    croak 'a response needs a text' if !defined $text;
    return $self->_response("$type; charset=utf-8", Encode::encode('UTF-8', "$text"), $status);
}

1;

__END__

=encoding utf-8

=head1 NAME

Howdah::Kit::Context - a request, and the responses to it

=head1 SYNOPSIS

  use Howdah::Kit;

  Howdah::Kit->psgi_app(routes => [
      'GET /hello/:name' => sub {
          my ($self, $c) = @_;
          return $c->text('Hello ' . $c->param('name'));
      },
  ]);

=head1 DESCRIPTION

A handler returns

=over 4

=item *

a text, in characters, which is an HTML page;

=item *

what C<text>, C<html>, C<json>, C<redirect>, C<error> and C<render> below return, or any L<Plack::Response>;

=item *

a response of PSGI's own: an array, or a sub for streaming. It is passed on as it is, in bytes.

=back

It may also die with a L<Plack::Response>, from any depth. Anything else is an error of the application's: 500.

=head1 WHAT WAS ASKED

=head2 param($name), params($name)

A parameter in characters: what the route captured, else what the request says, the body's after the query's. C<params>
has all values, C<param> the last, undef if there is none. What is not UTF-8 is answered by 400.

=head2 json_body

The data of a JSON body. What is none is answered by 400.

=head2 method, path

The request's method, and its path below the application, in characters.

=head2 session

A reference to the hash of the session, which is kept. Dies without the option C<session>.

=head2 req, env

The L<Plack::Request>, for cookies, uploads, headers, all in bytes, which answers a malformed form by 400; the environment of PSGI.

=head2 core

The application's L<Howdah::Kit::Core>.

=head1 WHAT IS ANSWERED

Each returns a L<Plack::Response>, to which headers and cookies can be added. Texts are characters, sent as UTF-8.
C<$status> is 200 by default; one outside of 200 to 599 is an error.

=head2 text($text, $status), html($text, $status), json($data, $status)

C<text/plain>, C<text/html>, C<application/json>.

=head2 render($template, \%variables)

A template, as HTML. See L<Howdah::Kit::Renderer>.

=head2 redirect($location, $status)

Default 302. The location goes through C<url>.

=head2 error($status, $message)

A line of text, with a status that has to be given. Default: the words that go with it.

=head2 url($location)

A location that begins with one slash is a path of the application, wherever that is mounted: C</notes> becomes
C</cgi-bin/app.cgi/notes> in a CGI script. Every other is left as it is, but what may not stand in an address is encoded.
Do not give it what a user wrote: C<//evil.example> is another server. Control characters are an error.

=head2 new(%parts)

Called by L<Howdah::Kit::App>: C<env>, C<core>, C<captures>.

=cut
