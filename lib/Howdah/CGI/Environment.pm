package Howdah::CGI::Environment;
use v5.16;
use warnings;

use Howdah ();
use Howdah::XS ();
use version ();

# PATH where the server has none.
use constant PATH => '/usr/local/bin:/usr/bin:/bin';

# They are for the server (RFC 3875 4.1.18), unless the operator passes them on.
my %SECRET = map { $_ => 1 } qw(HTTP_AUTHORIZATION HTTP_PROXY_AUTHORIZATION);

# Programs take the first for the proxy that they are to use, and the others are said under other names.
my %NEVER = map { $_ => 1 } qw(HTTP_PROXY HTTP_CONTENT_LENGTH HTTP_CONTENT_TYPE);

# What a request may have beside its header: of its body, of who asks, where it was before a local redirect, and whom a middleware around
# the scripts has let in.
my %TAKEN = map { $_ => 1 }
    qw(AUTH_TYPE CONTENT_LENGTH CONTENT_TYPE REDIRECT_STATUS REDIRECT_URL REMOTE_ADDR REMOTE_PORT REMOTE_USER),
    qw(REQUEST_METHOD REQUEST_URI SERVER_PORT SERVER_PROTOCOL);

sub new {
    my ($class, %given) = @_;
    my %fixed = (PATH => $ENV{PATH} // PATH);
    for my $name (@{$given{pass} // []}) { $fixed{$name} = $ENV{$name} if defined $ENV{$name} }
    %fixed = (
        %fixed, %{$given{env} // {}},
        DOCUMENT_ROOT     => $given{document_root},
        GATEWAY_INTERFACE => 'CGI/1.1',
        SERVER_SOFTWARE   => 'Howdah/' . version->parse($Howdah::VERSION)->normal =~ s/\Av//r,
    );
    my %passed = map { $_ => 1 } @{$given{pass} // []};
    my %hidden = (%NEVER, map { $_ => 1 } grep { !$passed{$_} } keys %SECRET);
    return bless {fixed => \%fixed, hidden => \%hidden, root => $given{document_root} =~ s{/\z}{}r}, $class;
}

# What is the same for every request.
sub fixed { return $_[0]{fixed} }

# The variables of a request for a script: a new hash.
sub variables {
    my ($self, $env, $script, $path_info) = @_;
    my $all = Howdah::XS::request_variables($self->{fixed}, $env, $self->{hidden}, \%TAKEN);
    $all->{QUERY_STRING}    = $env->{QUERY_STRING};        # which may be empty
    $all->{REMOTE_HOST}     = $env->{REMOTE_ADDR};         # nobody looks names up: this may stand for one
    $all->{REQUEST_SCHEME}  = $env->{'psgi.url_scheme'};
    $all->{HTTPS}           = 'on' if $env->{'psgi.url_scheme'} eq 'https';
    $all->{SERVER_PROTOCOL} = 'HTTP/2.0' if $env->{SERVER_PROTOCOL} eq 'HTTP/2';    # two numbers: RFC 3875 4.1.16
    $all->{SERVER_ADDR}                  = $env->{SERVER_NAME} if $env->{SERVER_NAME} =~ /\A[0-9.]+\z|:/;
    $all->{UNIQUE_ID}                    = $env->{HTTP_X_REQUEST_ID} if defined $env->{HTTP_X_REQUEST_ID};
    $all->{SERVER_NAME}                  = _server_name($env);
    $all->{SCRIPT_NAME}                  = $script->{name};
    $all->{SCRIPT_FILENAME}              = $script->{file};
    @$all{qw(PATH_INFO PATH_TRANSLATED)} = ($path_info, $self->{root} . $path_info) if length $path_info;
    return $all;
}

# The words of an indexed query (RFC 3875 4.4), with a backslash before what is active in a shell (7.2).
sub arguments {
    my (undef, $env) = @_;
    my $query = $env->{QUERY_STRING};
    return
           if !length $query
        || $query =~ tr/=//
        || $query =~ /%(?![0-9A-Fa-f]{2})|%00/
        || $env->{REQUEST_METHOD} !~ /\A(?:GET|HEAD)\z/;
    my @words = split /\+/, $query, -1;
    for (@words) {
        s/%(..)/chr hex $1/ge;
        s/([&;`'"|*?~<>^()\[\]{}\$\\\n\xff])/\\$1/g;
    }
    return @words;
}

# The host that the client names, without its port; else where it was received.
sub _server_name {
    my $env  = shift;
    my $host = length($env->{HTTP_HOST} // '') ? $env->{HTTP_HOST} : $env->{SERVER_NAME};
    return lc($host =~ /\A(\[[^\]]*\]|[^:]*):[^:]*\z/ ? $1 : $host);
}

1;

__END__

=encoding utf-8

=head1 NAME

Howdah::CGI::Environment - meta-variables of CGI scripts

=head1 SYNOPSIS

  my $environment = Howdah::CGI::Environment->new(document_root => '/srv/www', env => {A => 1}, pass => ['TZ']);
  my $variables   = $environment->variables($env, {name => '/cgi-bin/a.cgi', file => '/srv/cgi/a.cgi'}, '/path/info');
  my @arguments   = $environment->arguments($env);

=head1 DESCRIPTION

RFC 3875 4.1 and what scripts of Apache rely on, by the same rules as F<crates/cgi/src/environment.rs>. What a request says
wins over what the operator gives.

=head2 new(document_root => DIR, env => \%variables, pass => \@names)

C<pass> names variables of the server's environment to pass on, or C<HTTP_AUTHORIZATION>.

=head2 variables($env, $script, $path_info), fixed

All variables of a request; those that are the same for every one.

=head2 arguments($env)

The words of the command line that a query without C<=> is.

=cut
