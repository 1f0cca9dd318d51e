package Howdah::Kit::Request;
use v5.16;
use warnings;

# Plack::Request, which dies of a malformed body as of any error. Here that is the client's, and is answered by 400.
use parent 'Plack::Request';
use Plack::Response ();

# In the words of the parsers of multipart/form-data; what else they die of, as of a full disk, is not the client's.
my @MALFORMED = (
    'Invalid boundary',
    q{Parameter 'boundary'},
    q{Parameter 'name'},
    'Content-Disposition',
    'End of stream',
    'Malformed header',
    'Continuation line',
    'Size of',
    'Boundary',
    'Closing boundary',
    'Nonempty epilogue'
);
my $malformed = do { my $any = join '|', @MALFORMED; qr/\A(?:$any) / };

sub _parse_request_body {
    my $self = shift;
    return 1 if eval { $self->SUPER::_parse_request_body; 1 };
    die $@ if ref $@ || $@ !~ $malformed;
    die Plack::Response->new(
        400,
        ['Content-Type' => 'text/plain; charset=utf-8'],
        "The body of the request is not what its Content-Type says.\n"
    );
}

1;

__END__

=encoding utf-8

=head1 NAME

Howdah::Kit::Request - Plack::Request, which answers a malformed body by 400

=head1 DESCRIPTION

For L<Howdah::Kit::Context>. A body of C<multipart/form-data> without a boundary, without an end, or with a part that has no
name makes L<Plack::Request> die in C<param>, C<upload> and the like; here it dies with a response, which the kit sends.

=cut
