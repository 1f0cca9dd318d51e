package Howdah::Kit::Need;
use v5.16;
use warnings;

# Loads what only some applications need, at the moment when they turn out to.
use Howdah::Kit::Blame qw(croak);

my %DEBIAN = (
    'Plack::Middleware::Session'         => 'libplack-middleware-session-perl',
    'Plack::Middleware::Session::Cookie' => 'libplack-middleware-session-perl',
    'Router::Simple'                     => 'librouter-simple-perl',
);

sub load {
    my ($class, $module, $purpose) = @_;
    my $file = $module =~ s{::}{/}gr . '.pm';
    return $module if eval { require $file };
    die $@ if $@ !~ /^Can't locate \Q$file\E in \@INC/;
    my $distribution = $module =~ /^(Plack::Middleware::Session)/ ? $1 : $module;
    my $package      = $DEBIAN{$module} ? "apt install $DEBIAN{$module}, or " : '';
    croak "$purpose: $module is not installed (${package}cpanm $distribution)";
}

1;

__END__

=encoding utf-8

=head1 NAME

Howdah::Kit::Need - load a module, or say how to install it

=head1 SYNOPSIS

  use Howdah::Kit::Need;

  my $router = Howdah::Kit::Need->load('Router::Simple', 'routes are matched by it')->new;

=head2 load($module, $purpose)

Returns the module's name. Dies with purpose and package when it is missing, and with Perl's message when it does not
compile or lacks something itself.

=cut
