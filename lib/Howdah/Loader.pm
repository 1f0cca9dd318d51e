package Howdah::Loader;
use v5.16;
use warnings;

use Plack::Util ();
use Scalar::Util ();
use overload ();

# Middleware that plackup adds in development, innermost first.
my @DEVELOPMENT = qw(Lint StackTrace AccessLog);

# As whom the application is loaded, and where: before load.
sub enter {
    my ($class, %as) = @_;
    if (defined $as{user} || defined $as{group}) {
        require Howdah::Privileges;
        Howdah::Privileges->drop(user => $as{user}, group => $as{group});
    }
    my $dir = $as{chdir};
    !defined $dir || chdir $dir or die "cannot change to directory $dir: $!\n";
    return;
}

sub load {
    my ($class, %wish) = @_;
    require lib;
    lib->import(grep { length } @{$wish{inc} // []});    # HOWDAH_INCLUDE may be empty
    $ENV{PLACK_ENV} = $wish{env} if defined $wish{env};
    my $app;
    eval { $app = _given(%wish); 1 } or die _with_way_out($@, $wish{app});
    $app = $class->code($app, $wish{app} // 'the code given by -e');
    $app = _mount($app, $wish{path}) if defined $wish{path} && length $wish{path};
    $app = _develop($app) if $wish{default_middleware} && ($wish{env} // '') eq 'development';
    return $app;
}

# An object such as a Plack::Component is as good as a code reference.
sub code {
    my ($class, $app, $name) = @_;
    return $app->to_app if Scalar::Util::blessed($app) && $app->can('to_app');
    return $app if (Scalar::Util::reftype($app) // '') eq 'CODE';
    return \&$app if Scalar::Util::blessed($app) && overload::Method($app, '&{}');
    my $found = ref $app || (defined $app ? "'$app'" : 'undef');
    die "$name does not return a PSGI application: it must end in a code reference, not $found\n";
}

# What the file, the module or the code returns. $0, by which FindBin looks for a program, is the title of the zygote, and no file.
sub _given {
    my %wish = @_;
    my $file = $wish{app} // (defined $wish{eval} ? undef : 'app.psgi');
    local $0 = defined $file && -f $file ? $file : '-e';
    _load_module($_) for @{$wish{modules} // []};
    return _evaluate($wish{eval}, $wish{app}) if defined $wish{eval};
    return Plack::Util::load_psgi($wish{app} // 'app.psgi');
}

# A module that perl has not found may be the application's own, in a directory that nobody has named, or no module.
sub _with_way_out {
    my ($error, $file) = @_;
    return $error if ref $error;
    if (defined $file && $error =~ /^Error while loading \Q$file\E\.pm: No such file/) {
        return "$error$file is a file here: write ./$file\n" if -f $file;
        return "${error}there is $file.psgi here: write $file.psgi\n" if -f "$file.psgi";
    }
    my ($module) = $error =~ /Can't locate (\S+\.pm) in \@INC/ or return $error;
    my ($beside) = ($file // '') =~ m{^(.*/)};
    my ($dir)    = grep { -f "$_/$module" } 'lib', defined $beside ? "${beside}lib" : ();
    return $error if !defined $dir;
    chomp $error;
    return "$error\n$dir/$module is there: start with -I $dir\n";
}

sub _develop {
    my $app = shift;
    for my $name (@DEVELOPMENT) {
        my $class = Plack::Util::load_class($name, 'Plack::Middleware');
        $app = $class->wrap($app);
    }
    return $app;
}

sub _evaluate {
    my ($code, $file) = @_;
    require Plack::Builder;

    # Messages name the code as perl does, with its own lines.
    my $text =
          "package Howdah::Loader::Evaluated; no strict; no warnings; use Plack::Builder;\n"
        . "builder {\n"
        . qq{#line 1 "-e"\n$code\n;}
        . (defined $file ? 'Plack::Util::load_psgi($file);' : '') . '}';
    my $app = eval $text;    ## no critic (ProhibitStringyEval)
    return $app if !$@;

    # What Plack::Builder says of a block that returns nothing names none of what was written.
    die $@ if $@ !~ /^to_app\(\) is called without mount\(\)/ || defined $file;
    die "the code given by -e does not return a PSGI application: it must end in a code reference, not in "
        . ($code =~ /\S/ ? "what is false\n" : "nothing\n");
}

# Module, or Module=import,list, as in perl -M.
sub _load_module {
    my ($name, $list) = split /=/, shift, 2;
    my $class = Plack::Util::load_class($name);
    $class->import(defined $list ? split /,/, $list : ());
    return;
}

sub _mount {
    my ($app, $path) = @_;
    require Plack::App::URLMap;
    my $map = Plack::App::URLMap->new;
    $map->mount($path => $app);
    return $map->to_app;
}

1;

__END__

=encoding utf-8

=head1 NAME

Howdah::Loader - load a PSGI application

=head1 SYNOPSIS

  use Howdah::Loader;

  my $app = Howdah::Loader->load(app => 'app.psgi', env => 'deployment');
  my $app = Howdah::Loader->load(eval => 'enable "Static"', app => 'MyApp', inc => ['lib']);

=head1 DESCRIPTION

Loads an application as L<plackup> does. Called by L<Howdah::Zygote>, or by L<Howdah::Worker> with C<--no-preload>.

=head2 enter(%as)

Becomes the C<user> and the C<group>, where one is given (see L<Howdah::Privileges>), then changes to the directory C<chdir>. Dies with
the reason when it cannot.

=head2 load(%wish)

Returns the application, a code reference. Dies with Perl's message when it does not compile or is none. Where a module is missing that
lies in the directory F<lib>, or in F<lib> beside the file, the message says how to have it found; so it does where C<app> is taken for
a module and is a file, or the name of one without F<.psgi>.

=over 4

=item app

A file, or a module name of letters, digits, underscores and colons, as for C<Plack::Util::load_psgi>. Default
F<app.psgi>, or none when C<eval> is given.

=item eval

Code that runs inside C<builder { }>. With C<app> it wraps that application.

=item env

Value for C<PLACK_ENV>.

=item inc, modules

References to arrays: directories for C<@INC>; modules to load first, each C<Module> or C<Module=import,list>.

=item path

Mount the application below this path.

=item default_middleware

When true and C<env> is C<development>: wrap the application in Lint, StackTrace and AccessLog.

=back

=head2 code($app, $name)

The code reference that C<$app> is or stands for. Dies when it is no application; C<$name> is what has returned it.

=cut
