package Howdah::Kit::Session;
use v5.16;
use warnings;

# Makes the option session into a layer of Plack's middleware.
use MIME::Base64 ();

use Howdah::Kit::Blame qw(croak);
use Howdah::Kit::Core ();
use Howdah::Kit::Need ();

sub middleware {
    my $wish = shift;
    croak 'session is {secret => TEXT} for a signed cookie, or {store => OBJECT}' if ref $wish ne 'HASH';
    my $cookie = exists $wish->{secret};
    croak 'session wants a secret (for a signed cookie) or a store that all workers share; one and not both'
        if !$cookie == !$wish->{store};
    croak 'the secret of sessions must have at least 16 characters that nobody can guess'
        if $cookie && length($wish->{secret} // '') < 16;
    my $name = $cookie ? 'Session::Cookie' : 'Session';
    Howdah::Kit::Need->load("Plack::Middleware::$name", 'sessions are kept by it');
    return [$name, $cookie ? (httponly => 1, _as_json()) : (), %$wish];
}

# Storable, the middleware's default, would let whoever learns the secret run code.
sub _as_json {
    my $core = Howdah::Kit::Core->new;
    return (
        serializer   => sub { MIME::Base64::encode($core->encode_json($_[0]), '') },
        deserializer => sub { $core->decode_json(MIME::Base64::decode($_[0])) },
    );
}

1;

__END__

=encoding utf-8

=head1 NAME

Howdah::Kit::Session - sessions by Plack's middleware

=head1 SYNOPSIS

  use Howdah::Kit::Session;

  my ($name, %options) = @{Howdah::Kit::Session::middleware({secret => $secret, expires => 3600})};

=head2 middleware(\%wish)

The name of a middleware and its options, in an array. With C<secret>, at least 16 characters: a signed cookie that
JavaScript cannot read, with the session as JSON. With C<store>: L<Plack::Middleware::Session>. Dies for anything else, and
when the module is not installed.

=cut
