package Howdah::Kit::Serve;
use v5.16;
use warnings;

# The ways in which a process can serve an application of the kit: as a CGI script, or as Howdah.
use Howdah::Kit::Blame qw(croak);

# What says where to listen.
my @PLACES = qw(host listen port socket);

# Answers the request that the environment describes.
sub request {
    my $app = shift;
    croak 'there is no request: this is a CGI script, for a web server to run. To try it:'
        . " REQUEST_METHOD=GET PATH_INFO=/ perl $0"
        if !length($ENV{REQUEST_METHOD} // '');
    require Plack::Handler::CGI;
    local $ENV{SCRIPT_NAME} = $ENV{SCRIPT_NAME} // '';    # who tries it in a shell leaves it out
    return Plack::Handler::CGI->new->run($app->to_app);
}

# Becomes a server with the application that is loaded.
sub start {
    my ($app, @options) = @_;
    my $handler = _handler(start => @options);
    croak 'start makes a server of this process, but a server is loading this file: let it end with psgi_app(...)'
        if _is_loaded();
    return $handler->run($app->to_app);
}

# Becomes a server that loads a file.
sub file {
    my ($file, @options) = @_;
    croak 'kit is given a file: kit "hello.psgi", workers => 10' if !defined $file || !length $file;
    croak "kit: there is no file $file" if !-e $file;
    croak "kit: $file is not a file, but a directory" if -d _;
    my $handler = _handler(kit => @options);
    my $command = Howdah->binary;
    local $ENV{PERL5LIB} = join ':', grep { !ref } @INC;
    exec {$command} 'howdah', _perl(@options), $handler->arguments, '--', $file or die "cannot run $command: $!\n";
}

# The modules are for the perl that runs this.
sub _perl {
    my %options = @_;
    return exists $options{perl} ? () : ('--perl', $^X);
}

sub _handler {
    my ($name, @options) = @_;
    croak "$name takes pairs of option and value: workers => 10" if @options % 2;
    my %options = @options;
    for my $option (sort keys %options) {
        croak "the option $option has no value" if !defined $options{$option};
    }
    $options{listen} = '127.0.0.1:5000' if !grep { exists $options{$_} } @PLACES;
    require Howdah;
    require Plack::Handler::Howdah;
    return Plack::Handler::Howdah->new(%options);
}

# Whether one of our callers is what loads .psgi files.
sub _is_loaded {
    for (my $depth = 1 ; my @frame = caller $depth ; $depth++) {
        return 1 if $frame[3] =~ /^(?:Howdah::Loader::load|Plack::Util::load_psgi)$/;
    }
    return 0;
}

1;

__END__

=encoding utf-8

=head1 NAME

Howdah::Kit::Serve - an application as a CGI script, or as a server

=head1 SYNOPSIS

  use Howdah::Kit;

  Howdah::Kit->build(sub { $_[0]->text("Hello\n") })->start(workers => 10);

=head1 DESCRIPTION

L<Howdah::Kit> and L<Howdah::Kit::App> call it.

=head2 request($app)

Answers on STDOUT what C<%ENV> and STDIN ask, by L<Plack::Handler::CGI>. Dies when C<REQUEST_METHOD> is not set.

=head2 start($app, %options)

Becomes a server with that application, by L<Plack::Handler::Howdah>; does not return. Dies for options without a value, and
in a file that is being loaded by a server.

=head2 file($file, %options)

Becomes the C<howdah> command, which loads that file; does not return. Dies when there is no such file.

=cut
