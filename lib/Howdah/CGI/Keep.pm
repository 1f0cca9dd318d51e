package Howdah::CGI::Keep;
use v5.16;
use warnings;

use Howdah::CGI::Answer ();
use Howdah::CGI::Environment ();
use Howdah::CGI::Handles ();
use Howdah::CGI::Leftovers ();
use Howdah::CGI::Place ();
use Howdah::CGI::Script ();
use Howdah::CGI::State ();
use Howdah::XS ();

# The client is told no more than this; the log has the reason.
my %PHRASE = (403 => 'Forbidden', 404 => 'Not Found', 503 => 'Service Unavailable');

my $worker = 0;    # the process that has its standard handles prepared
my $failed = 0;    # scripts that did not compile when they were loaded

# For `howdah check`.
sub failed { return $failed }

sub new {
    my ($class, %given) = @_;
    my @missing = grep { !defined $given{$_} } qw(root);
    die "Howdah::CGI::Keep->new needs $missing[0]\n" if @missing;
    Howdah::XS::prepare_scripts();
    my $place = Howdah::CGI::Place->new(%given{qw(root mount index)});
    $given{document_root} //= $place->directory;
    return bless {
        place       => $place,
        environment => Howdah::CGI::Environment->new(%given),
        preload     => $given{preload} // [],
        scripts     => {},
    }, $class;
}

# Compiles all scripts that are there, for workers to share.
sub to_app {
    my $self = shift;
    my $here = Cwd::getcwd();
    my %env  = %ENV;
    my $zero = $0;
    Howdah::CGI::Handles::note();
    Howdah::CGI::State::note();
    require(m{/} ? $_ : s{::}{/}gr . '.pm') for @{$self->{preload}};
    my @perl = grep { _is_perl($_) } $self->{place}->scripts;
    my @failed;

    for my $file (@perl) {
        push @failed, $file if defined $self->_compile($file, Howdah::XS::file_version($file))->error;
    }
    $failed += @failed;
    %ENV = %env;    ## no critic (RequireLocalizedPunctuationVars)
    Howdah::XS::name_script($zero);
    chdir $here;
    my $where = $self->{place}->root;
    print {*STDERR} 'howdah: compiled ', @perl - @failed, " CGI scripts of $where\n";
    print {*STDERR}
        "howdah: a CGI script does not compile, and answers 500 until it is changed: $self->{scripts}{$_}{error}\n"
        for @failed;
    return sub { my $env = shift; return $self->call($env) };
}

# A client that leaves interrupts nothing but the script: what is compiled or cleaned up is not left half done.
sub call {
    my ($self, $env) = @_;
    Howdah::XS::hold_interrupts();
    my ($found, @rest) = $self->{place}->find($env->{SCRIPT_NAME} . $env->{PATH_INFO});
    return _refuse(@rest) if !$found;
    $self->_begin_worker if $worker != $$;
    $env->{SCRIPT_FILENAME} = $found->{file};
    $env->{HOWDAH_CGI_MODE} = 'keep';
    my $script = $self->{scripts}{$found->{file}};

    if (!$script || $script->version ne $found->{version}) {
        $script = $self->_compile($found->{file}, $found->{version});
        Howdah::CGI::Leftovers::note_descriptors();
    }
    die $script->error . "\n" if defined $script->error;
    return sub { $self->_run($script, $found, $env, $rest[0], shift) };
}

sub _begin_worker {
    my $self = shift;
    %ENV = %{$self->{environment}->fixed};    ## no critic (RequireLocalizedPunctuationVars)
    Howdah::CGI::Handles::open_all();
    Howdah::CGI::State::note();
    Howdah::CGI::Leftovers::note();
    setpgrp;                                  # what scripts start can be ended with the worker
    $worker = $$;
    return;
}

sub _compile {
    my ($self, $file, $version) = @_;
    return $self->{scripts}{$file} = Howdah::CGI::Script->new($file, $version, $self->{environment}->fixed);
}

sub _is_perl {
    my $file = shift;
    open my $in, '<:raw', $file or return 0;
    return (<$in> // '') =~ m{\A(?:\xef\xbb\xbf)?\#!.*?perl[\d.]*\s};
}

sub _refuse {
    my ($status, $reason) = @_;
    print {*STDERR} "howdah: no CGI script: $reason\n";
    return [$status, ['Content-Type' => 'text/plain'], ["$status $PHRASE{$status}\n"]];
}

sub _run {
    my ($self, $script, $found, $env, $path_info, $respond) = @_;
    Howdah::XS::hold_interrupts();
    my $variables = $self->{environment}->variables($env, $found, $path_info);
    my @arguments = $self->{environment}->arguments($env);
    my $answer    = Howdah::CGI::Answer->new($respond, $script->{nph});
    _set_input($env);
    Howdah::XS::begin_output($answer, $script->printed);
    my $died = $script->run($variables, \@arguments);
    _leave_child($script, $?, $died) if $$ != $worker;
    my $is_clean = eval { _end($script, $answer) };
    my $why      = $@;
    $env->{'psgix.harakiri.commit'} = 1 if !$is_clean;    # what stays of it ends with the worker
    die $why if !defined $is_clean;
    return $self->_conclude($script, $answer, $died);
}

# The script has ended. Whether nothing of it stays that others could not do with.
sub _end {
    my ($script, $answer) = @_;
    Howdah::CGI::State::restore_handlers() if Howdah::XS::end_handlers();
    Howdah::XS::close_handles($_) for $script->packages;
    Howdah::CGI::Handles::restore();    # waits for a program that STDOUT leads to, whose output is the script's
    $answer->finish(Howdah::XS::end_output());
    my $is_whole = _clean_up($script);
    Howdah::CGI::Leftovers::tell_closed($script->{file}) if !$is_whole;
    return $is_whole && !Howdah::CGI::Leftovers::has_threads($script->{file}) ? 1 : 0;
}

sub _set_input {
    my $env   = shift;
    my $input = $env->{'psgi.input'};
    my $fd    = fileno $input;
    if (defined $fd && $fd >= 0) {
        Howdah::XS::pass_stdin($fd);
        delete $env->{'psgi.input'};    # what is open behind the script is its own
        return;
    }
    my $body = '';
    if ($env->{CONTENT_LENGTH}) { 1 while read $input, $body, 1 << 20, length $body }
    return Howdah::XS::set_stdin($body);
}

sub _clean_up {
    my $script = shift;
    Howdah::CGI::State::forget_request();
    my $is_whole = Howdah::XS::renew_output();
    my $left     = Howdah::XS::restore_process();
    Howdah::CGI::State::end($left);
    Howdah::CGI::Leftovers::tell($script->{file}, $left) if $left;
    return $is_whole;
}

# One that the script has forked. It ends without a look at what other scripts have in this process: objects that were destroyed
# here would close what they have open for the worker, too.
sub _leave_child {
    my ($script, $status, $died) = @_;
    print {*STDERR} $died if length $died;
    Howdah::XS::close_handles($_) for $script->packages;
    return Howdah::XS::exit_now($status);
}

sub _conclude {
    my ($self, $script, $answer, $died) = @_;
    Howdah::XS::complain($died) if length $died;
    return Howdah::XS::redirect($answer->redirect) if defined $answer->redirect;
    die "$script->{file}: " . $answer->fault if defined $answer->fault;
    return;
}

1;

__END__

=encoding utf-8

=head1 NAME

Howdah::CGI::Keep - CGI scripts in Perl, compiled once and run in the worker

=head1 SYNOPSIS

  howdah --cgi /cgi-bin=/srv/cgi-bin,mode=keep

or as a part of F<app.psgi>:

  use Howdah::CGI::Keep;

  mount '/cgi-bin' => Howdah::CGI::Keep->new(root => '/srv/cgi-bin', mount => '/cgi-bin')->to_app;

=head1 DESCRIPTION

A PSGI application for workers of Howdah. Each script becomes a sub in a package of its own and is called for each request, as
by L<ModPerl::Registry>; what it leaves behind is cleaned up where that can be done. F<docs/cgi-keep.md> of the distribution tells
what differs from a process for each request.

=head2 new(%options)

=over 4

=item root

The directory of the scripts, or one script.

=item mount

The path below which they are. Default: the root of all paths.

=item index

A reference to the names of scripts that answer for a directory.

=item document_root, env, pass

As for L<Howdah::CGI::Environment>; the document root is the directory of the scripts by default.

=item preload

A reference to the names of modules, and of files, which have a slash, that are loaded before the scripts are compiled.

=back

=head2 to_app

Compiles the scripts that are there and returns the application. A script that does not compile is no reason not to start: its
requests are answered with 500, until it is changed.

=head2 failed

How many scripts did not compile for the applications that this process has made. For C<howdah check>.

=head2 call($env)

The application.

=cut
