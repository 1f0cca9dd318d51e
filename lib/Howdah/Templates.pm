package Howdah::Templates;
use v5.16;
use warnings;

use Carp ();
use Exporter qw(import);
use File::Spec ();
use List::Util ();
use Scalar::Util ();

our @EXPORT_OK = qw(precompile);

# Engines by class: the module here that knows how they compile, and where Debian has them.
my @ENGINES = (
    ['Text::Xslate'              => 'Xslate', 'libtext-xslate-perl'],
    ['Template'                  => 'Toolkit', 'libtemplate-perl'],
    ['HTML::Template'            => 'HTML', 'libhtml-template-perl'],
    ['Mojo::Template'            => 'Mojo', 'libmojolicious-perl'],
    ['Mojolicious'               => 'Mojolicious', 'libmojolicious-perl'],
    ['Text::MicroTemplate::File' => 'MicroTemplate', 'libtext-microtemplate-perl'],
);

# What frameworks wrap around an engine, and the method that has it.
my @WRAPPERS = (
    ['Dancer2::Core::Role::Template' => 'engine'],
    ['Catalyst::View::TT'            => 'template'],
    ['Catalyst::View::Xslate'        => 'xslate'],
);

# Used when the caller does not say which files are templates.
my $TEMPLATE = qr/\.(?:html|ep|mt|tmpl|tt2?|tx)\z/;

my @compiled;    # for log and status

# Templates that workers get as they are: those of engines that keep them.
sub count {
    return List::Util::sum0(map { $_->[3] ? $_->[2] : () } @compiled);
}

sub precompile {
    my ($engine, %how) = @_;
    my $unknown = join ', ', grep { !/^(?:dir|match|options)$/ } sort keys %how;
    Carp::croak("precompile takes dir, match and options, not $unknown") if $unknown;
    Carp::croak('precompile needs a dir') if !defined $how{dir};
    my ($class, $adapter) = _adapter(_unwrapped($engine), $how{options} // {});
    my $dir     = File::Spec->canonpath($how{dir});
    my @files   = _files($dir, $how{match} // $TEMPLATE);
    my $prefix  = _prefix($dir, $adapter->paths($dir));
    my $keeps   = $adapter->keeps(scalar @files);
    my @trouble = grep { defined } map { _compile($adapter, "$dir/$_", $prefix . $_) } @files;
    die map { "$_\n" } @trouble if @trouble;
    push @compiled, [$class, $dir, scalar @files, $keeps];
    return $adapter->engine;
}

# Both by Howdah::Zygote, once the application is loaded.
sub report {
    my $class = shift;
    return map { $class->_line(@$_) } @compiled;
}

sub _adapter {
    my ($engine, $options) = @_;
    my ($found) = grep { $engine->isa($_->[0]) || $engine eq $_->[0] } @ENGINES;
    Carp::croak('precompile knows no engine ' . (ref $engine || "'$engine'") . '; see man Howdah::Templates')
        if !$found;
    my ($class, $name, $package) = @$found;
    _load($class, $package);
    my $adapter = __PACKAGE__ . "::$name";
    require File::Spec->catfile(split /::/, "$adapter.pm");
    return ($class, $adapter->new($engine, %$options));
}

# What is wrong with the template, nothing if it compiles.
sub _compile {
    my ($adapter, $file, $name) = @_;
    open my $in, '<', $file or return "$file: cannot be read: $!";    # which engines tell with a line of their own code
    return if eval { $adapter->compile($name, $file); 1 };
    my $error = "$@";
    my ($where, $line, $message) = $adapter->explain($error, $file);
    $message =~ s/\s+/ /g;
    return "$where line $line: $message";
}

# Paths below the directory, in the order of the alphabet.
sub _files {
    my ($dir, $match) = @_;
    -d $dir or Carp::croak("precompile: there is no directory $dir");
    my @files = sort grep { $_ =~ $match } _walk($dir, '');
    Carp::croak("precompile: no file below $dir matches $match") if !@files;
    return @files;
}

sub _line {
    my (undef, $class, $dir, $count, $keeps) = @_;
    my $what = "$count template" . ($count == 1 ? '' : 's') . " of $class below $dir";
    return $keeps ? "compiled $what before the fork\n" : "checked $what; the engine is set to keep none\n";
}

sub _load {
    my ($class, $package) = @_;
    my $file = $class =~ s{::}{/}gr . '.pm';
    return if $class->can('new') || eval { require $file };
    die $@ if $@ !~ /^Can't locate \Q$file\E /;
    die "$class is not installed: Debian has it in $package, others get it by cpanm $class\n";
}

# What stands before a path to make the name by which the engine knows the template.
sub _prefix {
    my ($dir, @paths) = @_;
    return "$dir/" if !@paths;
    my $absolute = File::Spec->rel2abs($dir);
    for my $path (map { File::Spec->canonpath(File::Spec->rel2abs($_)) } @paths) {
        return '' if $absolute eq $path;
        return "$1/" if $absolute =~ m{\A\Q$path\E/(.*)\z}s;
    }
    Carp::croak("precompile: the engine would not find what is below $dir, it looks into @paths");
}

sub _unwrapped {
    my $engine = shift // Carp::croak('precompile needs an engine');
    Carp::croak('precompile takes an object or a class') if ref $engine && !Scalar::Util::blessed($engine);
    for my $wrapper (@WRAPPERS) {
        my ($class, $method) = @$wrapper;
        return $engine->$method if $engine->DOES($class);
    }
    return $engine;
}

# Symbolic links are followed, as engines do, but not to a directory that one is in.
sub _walk {
    my ($dir, $path, %above) = @_;
    my $id = join ':', (stat $dir)[0, 1];
    return if $above{$id};
    opendir my $handle, $dir or die "cannot read $dir: $!\n";
    my @names = grep { !/^\./ } readdir $handle;
    return map { -d "$dir/$_" ? _walk("$dir/$_", "$path$_/", %above, $id => 1) : -f _ ? "$path$_" : () } @names;
}

1;

__END__

=encoding utf-8

=head1 NAME

Howdah::Templates - compile templates before the fork

=head1 SYNOPSIS

In F<app.psgi>:

  use Howdah::Templates qw(precompile);
  use Text::Xslate;

  my $xslate = Text::Xslate->new(path => 'templates', cache_dir => '/var/cache/shop');
  precompile($xslate, dir => 'templates', match => qr/\.html\z/);

  sub {
      return [200, ['Content-Type' => 'text/html'], [$xslate->render('index.html', {title => 'Shop'})]];
  };

=head1 DESCRIPTION

A template engine compiles a template when it is used first. In a server that is each worker for itself: every one
takes the time, and has the memory. What the application compiles while it is loaded, by the zygote, all workers share.

A template that does not compile fails the load, by its file and line, so that a server does not start with it, and a
reload leaves the old code serving. C<howdah check> tells it before.

The error log has one line for each call when the application is loaded: C<compiled 200 templates of Text::Xslate below
templates before the fork>. With C<--no-preload> each worker compiles for itself, without a word.

It works under any server that forks after it has loaded the application. Nothing of Howdah's but this is loaded, and of
the engines only the one in question.

=head1 FUNCTIONS

Exported on request.

=head2 precompile($engine, %how)

  precompile($xslate, dir => 'templates');
  precompile($xslate, dir => 'templates/shop', match => qr/\.tx\z/);
  my $tt = precompile('Template', dir => 'templates', options => {INCLUDE_PATH => 'templates'});

Compiles the templates and returns what renders them: the engine, or what L</ENGINES> says. Call it as the last that is
done to the engine: what is set afterwards (functions, helpers, filters) need not have an effect on what is compiled.

=over 4

=item $engine

An object, or the name of a class, which is then loaded and made with C<options>. See L</ENGINES>.

=item dir

The directory; those below it are searched, too, without files and directories whose names begin with a dot; symbolic
links are followed. Required. It is one of those where the engine looks for templates, or
lies below one.

=item match

Which files are templates: a pattern for the path below C<dir>. By default those that end in C<.html>, C<.ep>, C<.mt>,
C<.tmpl>, C<.tt>, C<.tt2> or C<.tx>.

=item options

A reference to a hash: what C<new> of the class takes. Not used with an object, except as L</ENGINES> says.

=back

Dies when a template does not compile, with one line for each, C<FILE line NUMBER: MESSAGE>; when the engine is unknown or not
installed, with Debian's package to install; when there is no such directory, no such file, or the engine would not look
there. What has been compiled until then stays compiled.

=head2 Howdah::Templates->count

How many templates have been compiled and kept in this process. For L<Howdah::Zygote>, which tells the status.

=head2 Howdah::Templates->report

A line for each call of C<precompile> that has succeeded in this process. For L<Howdah::Zygote>.

=head1 ENGINES

Each of them finds out by itself that a file is newer than what it has compiled, so in development changed templates are
seen without a restart, unless it says otherwise here. An engine that is set to keep nothing only has the templates
checked, and the log says so.

=head2 Text::Xslate

An object. C<cache> 1 (the default) looks at the file's time for each rendering, 2 never; 0 keeps nothing. It writes into
C<cache_dir> as well, for which it wants to have the right.

=head2 Template (Template Toolkit)

An object. It looks at a file at most once in C<STAT_TTL> seconds (default 1); in production 3600 or so saves that, and
the memory that each look makes a worker's own. C<CACHE_SIZE>, if it is set, must not be less than the number of
templates: C<precompile> dies. 0 keeps nothing.

=head2 HTML::Template

The class or one that inherits, with the C<options> with which the application makes its objects: what is compiled is
kept by the class, for C<path>, C<search_path_on_include>, C<loop_context_vars>, C<global_vars>, C<open_mode> and the
file. C<cache =E<gt> 1> is added here and must be given there. Without C<path> the file is named C<dir/name>, there too.
C<blind_cache> never looks at the file's time; C<file_cache> alone keeps nothing in memory.

  precompile('HTML::Template', dir => 'templates', options => {path => 'templates'});
  my $page = HTML::Template->new(path => 'templates', cache => 1, filename => 'index.html');

=head2 Mojo::Template

The class with C<options>, or an object whose attributes are taken over. Since such an object has one template, a
L<Howdah::Templates::Mojo> is returned, which has all:

  my $pages = precompile('Mojo::Template', dir => 'templates', options => {vars => 1, auto_escape => 1});
  print $pages->render('shop/cart.html', {items => \@items});

With C<vars>, the variables that a template does not declare itself are those that it is given: which is not is undefined.

=head2 Mojolicious

The application, for its templates of the handler C<ep>, by their files. What is said of C<vars> holds for the stash. There
is room for 100 templates by default: it is made larger by the number of files. Mojolicious does not look at files
again. For development, before C<precompile>:

  app->renderer->cache->max_keys(0) if app->mode eq 'development';

or let C<howdah --reload --reload-dir templates> load all anew.

  use Mojolicious::Lite;
  get '/' => 'index';
  precompile(app, dir => 'templates');
  app->start;

=head2 Text::MicroTemplate::File

An object. C<use_cache> 1 looks at the file's time for each rendering, 2 never; 0, the default, keeps nothing.

=head2 Inside of frameworks

Dancer2's engine for Template Toolkit or Text::Xslate, and Catalyst's views L<Catalyst::View::TT> and
L<Catalyst::View::Xslate>, are good instead of an engine, with all that is said of that:

  precompile(engine('template'), dir => setting('views'));             # Dancer2
  precompile(Shop->view('TT'), dir => Shop->path_to('root'));          # Catalyst

Dancer2's own engines, Simple and Tiny, compile nothing.

=head1 SEE ALSO

F<docs/templates.md> has figures; L<Howdah>, L<Howdah::Templates::Mojo>

=cut
