package Howdah::Zygote;
use v5.16;
use warnings;

use Howdah ();
use Howdah::Inherited ();
use Howdah::Loader ();
use Howdah::Worker ();
use Howdah::XS ();

my %ESCAPES  = (b    => "\b", f     => "\f", n  => "\n", r => "\r", t => "\t");
my %LITERALS = (null => undef, true => 1, false => 0);

# Started by the howdah command, with its wishes in the environment.
sub main {
    my $class = shift;
    my $wish  = delete $ENV{HOWDAH_ZYGOTE}
        // die "Howdah::Zygote->main is for the howdah command; start that, or plackup -s Howdah\n";
    Howdah::XS::exit_now($class->new(_read($wish))->run);
}

sub new {
    my ($class, %wish) = @_;
    return bless {preload => 1, %wish}, $class;
}

# Returns the exit status.
sub run {
    my $self = shift;
    my $told = Howdah::XS::attach($self->{control}) // return 1;    # the front is gone already
    (undef, undef, @$self{qw(generation titles)}) = split / /, $told;
    my @known = ($self->{control}, $self->{code} ? () : Howdah::Inherited->descriptors);
    if (!eval { $self->_prepare; 1 }) {
        $self->_tell("failed $@");
        return 1;
    }
    my $children = Howdah::XS::watch_children();
    $self->_prepare_workers(sub { $self->_tell("log $_") for Howdah::Inherited->find(@known) });
    $self->_tell(sprintf 'ready v%vd', $^V);
    $self->{on_ready}->() if $self->{on_ready};
    @_ = ('Howdah::Worker', $self->{control}, $children);
    goto &Howdah::Worker::run;    # leaves no frame of ours in the application's backtraces
}

sub _load {
    my $self = shift;
    return Howdah::Loader->load(map { $_ => $self->{$_} } qw(app eval modules inc env path default_middleware));
}

sub _prepare {
    my $self = shift;
    $0 = $self->_title;
    if (defined $self->{user} || defined $self->{group}) {
        require Howdah::Privileges;
        Howdah::Privileges->drop(user => $self->{user}, group => $self->{group});
    }
    my $dir = $self->{chdir};
    !defined $dir || chdir $dir or die "cannot change to directory $dir: $!\n";
    $self->{code} //= $self->_load if $self->{preload};
    return;
}

# What a forked child needs to be a worker.
sub _prepare_workers {
    my ($self, $warn) = @_;
    Howdah::Worker->prepare(
        app           => $self->{code},
        check         => $warn,
        load          => sub { $self->_load },
        report        => sub { $self->_tell("log worker @_") },
        control       => $self->{control},
        name          => $self->{name} || $self->_what,
        titles        => $self->{titles},
        full_destruct => $self->{full_destruct},
    );
    return;
}

# JSON as the command writes it: one object of plain values and lists of them. JSON::PP would be a megabyte more to fork.
sub _read {
    my $json = shift;
    my %wish;
    while ($json =~ /\G[{,]"(\w+)":/gc) {
        my ($name, @list) = $1;
        if ($json =~ /\G\[/gc) {
            push @list, _value(\$json) until $json =~ /\G,?\]/gc;
            $wish{$name} = \@list;
        }
        else {
            $wish{$name} = _value(\$json);
        }
    }
    return %wish;
}

sub _tell { return Howdah::XS::send($_[0]{control}, $_[1]) }

sub _title {
    my $self = shift;
    my $name = $self->{name} ? "[$self->{name}] " : '';
    return "howdah: zygote $name" . $self->_what . " generation $self->{generation}";
}

sub _unquote {
    my $text = shift;
    return $text =~ s/\\(?:u00(..)|(.))/defined $1 ? chr hex $1 : $ESCAPES{$2} \/\/ $2/ger;
}

sub _value {
    my $json = shift;
    return _unquote($1) if $$json =~ /\G,?"((?:[^"\\]|\\.)*)"/gc;
    die "HOWDAH_ZYGOTE is not what the howdah command writes\n" if $$json !~ /\G,?(\w+)/gc;
    return exists $LITERALS{$1} ? $LITERALS{$1} : $1;
}

# What the titles of the processes name.
sub _what { return $_[0]{app} // '-e' }

1;

__END__

=encoding utf-8

=head1 NAME

Howdah::Zygote - loads the application once and forks workers

=head1 SYNOPSIS

  # by the howdah command, wishes in $ENV{HOWDAH_ZYGOTE} as JSON:
  perl -MHowdah::Zygote -e 'Howdah::Zygote->main'

  # by Plack::Handler::Howdah, with the application at hand:
  exit Howdah::Zygote->new(control => $fd, code => $app)->run;

=head1 DESCRIPTION

A child of the front. It maps the shared memory, loads the application, tells the front that it is ready (or why not),
and forks a worker whenever it is told to. It does nothing else, so it stays small and clean: a worker forked after a
week is as good as the first.

=head2 main

Takes the wishes from the environment variable C<HOWDAH_ZYGOTE>, runs and ends the process.

=head2 new(%wish)

=over 4

=item control

The descriptor of the socket to the front.

=item app, eval, modules, inc, env, path, default_middleware

As for L<Howdah::Loader>.

=item code

The application itself, when it is loaded already.

=item preload

False to load the application in each worker. Default true.

=item user, group

Names or numbers; the zygote changes to them before it loads the application.

=item chdir

A directory to change to before that.

=item name

Shown in the titles of the processes.

=item full_destruct

Workers leave with C<END> blocks and destructors.

=item on_ready

Called once the application is loaded.

=back

=head2 run

Serves the front until it is told to stop or the front is gone. Returns the exit status: 1 when the application could
not be loaded.

=cut
