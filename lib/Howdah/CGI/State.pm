package Howdah::CGI::State;
use v5.16;
use warnings;

use Cwd ();
use File::Spec ();
use Howdah::CGI::Handles ();
use Howdah::XS ();

# Switches of CGI.pm and CGI::Carp, which a script sets while it is compiled, as by `use CGI qw(-utf8)`, or when it runs.
# Beside each what the module begins with; CGI::initialize_globals sees to some of them only.
my %SWITCHES = (
    'CGI.pm' => {
        (
            map { ("CGI::$_" => 0) }
                qw(ALLOW_DELETE_CONTENT APPEND_QUERY_STRING CLOSE_UPLOAD_FILES COOKIE_CACHE DISABLE_UPLOADS HEADERS_ONCE)
        ),
        (map { ("CGI::$_" => 0) } qw(NOSTICKY NO_UNDEF_PARAMS NPH PARAM_UTF8 PUTDATA_UPLOAD TABINDEX)),
        (map { ("CGI::$_" => 1) } qw(DEBUG LIST_CONTEXT_WARN UNLINK_TMP_FILES USE_PARAM_SEMICOLONS XHTML)),
        'CGI::POST_MAX' => -1,
    },
    'CGI/Carp.pm' => {
        'CGI::Carp::TO_BROWSER' => 1,
        (map { ("CGI::Carp::$_" => undef) } qw(CUSTOM_MSG DIE_HANDLER EMIT_WARNINGS PROGNAME)),
        (map { ("CGI::Carp::$_" => 0) } qw(FULL_PATH NO_TIMESTAMP WARN WRAP)),
    },
);
my @FOUND = qw(Bin RealBin RealScript Script);

# %SIG, @INC and the umask as the worker has them, and what is in %INC; the switches as their modules have them.
my (%first, %first_switches);

# Remembers how things are before any script. In the zygote, and again in each worker. A directory of -I or PERL5LIB counts from
# that of the server, and scripts run elsewhere; `.` is wherever perl is, as for a script that is executed.
sub note {
    @INC   = map { ref || $_ eq q{.} ? $_ : File::Spec->rel2abs($_) } @INC;
    %first = (sig => {%SIG}, inc => [@INC], umask => umask, count => scalar keys %INC, loaded => {%INC});
    Howdah::XS::note_settings();
    return;
}

# Before a script is compiled, or runs: $effects is what compiling it has changed for it.
sub begin {
    my ($effects, $variables, $directory, $file) = @_;
    my $place = $effects->{directory} // $directory;
    Howdah::XS::name_script($file);
    chdir $place or die "cannot change to $place: $!\n";
    Howdah::XS::set_variables($effects->{env} ? {%$variables, %{$effects->{env}}} : $variables);
    CGI::initialize_globals() if $INC{'CGI.pm'};
    @CGI::Carp::WARNINGS = () if $INC{'CGI/Carp.pm'};
    _set_switches($effects->{switches});
    _set_globals($effects->{found}) if $effects->{found};
    @INC = @{$effects->{inc}} if $effects->{inc};
    umask $effects->{umask} if defined $effects->{umask};

    for my $name (keys %{$effects->{sig} // {}}) {
        $SIG{$name} = $effects->{sig}{$name};
    }    ## no critic (RequireLocalizedPunctuationVars)
    Howdah::CGI::Handles::move_errors($effects->{errors}) if $effects->{errors};
    _set_layers($effects->{layers}) if $effects->{layers};
    select STDOUT;
    $| = $effects->{flush} // 0;    ## no critic (RequireLocalizedPunctuationVars)
    return;
}

# After a script: CGI.pm, if it has read the request, has its parameters, with the files of its uploads.
sub forget_request {
    CGI::initialize_globals() if @CGI::QUERY_PARAM || defined $CGI::Q;
    return;
}

# After a script was compiled: what that has changed, which must be so whenever it runs.
sub effects {
    my ($before, $directory) = @_;
    my %found = (flush => $|);
    my %env   = map { $_ => $ENV{$_} } grep { _is_set($before->{$_}, $ENV{$_}) } keys %ENV;
    my %sig   = map { $_ => $SIG{$_} } grep { _is_another($SIG{$_}, $first{sig}{$_}) } keys %SIG;
    $found{env}       = \%env if %env;
    $found{sig}       = \%sig if %sig;
    $found{umask}     = umask if umask != $first{umask};
    $found{directory} = Cwd::getcwd() if !_is_here($directory);
    $found{inc}       = [@INC] if "@INC" ne "@{$first{inc}}";
    $found{switches}  = _switches();
    $found{layers}    = _layers();
    $found{errors}    = Howdah::CGI::Handles::moved_errors();

    if ($INC{'FindBin.pm'}) {
        no strict 'refs';
        $found{found} = {map { ("FindBin::$_" => ${"FindBin::$_"}) } @FOUND};
    }
    return {map { $_ => $found{$_} } grep { defined $found{$_} } keys %found};
}

# After a script: what is perl's goes back to what it was. $left is what the process had to say.
sub end {
    my $left = shift;
    if ($left & Howdah::XS::LEFT_HANDLERS) { restore_handlers() }
    @INC = @{$first{inc}} if @INC != @{$first{inc}} || "@INC" ne "@{$first{inc}}";
    forget_libraries() if keys %INC != $first{count};
    return;
}

sub restore_handlers {
    ## no critic (RequireLocalizedPunctuationVars)
    for my $name (keys %{{%SIG, %{$first{sig}}}}) {    # those that were deleted, too
        next if !_is_another($SIG{$name}, $first{sig}{$name});
        if ($name =~ /^__/ && !defined $first{sig}{$name}) { delete $SIG{$name} }
        else { $SIG{$name} = $first{sig}{$name} // 'DEFAULT' }
    }
    Howdah::XS::note_handlers();
    return;
}

# A file that says no package defined its subs in that of who required it: others must be able to require it, too.
sub forget_libraries {
    for my $name (grep { !$first{loaded}{$_} } keys %INC) {
        if (defined $INC{$name} && (_has_symbols($name) || _has_package($INC{$name}))) { $first{loaded}{$name} = 1 }
        else { delete $INC{$name} }
    }
    $first{count} = keys %INC;
    return;
}

# In the package that a module is named after, wherever in a line that is said.
sub _has_symbols {
    my ($package) = shift =~ /\A(.*)\.pm\z/s or return 0;
    no strict 'refs';
    return scalar grep { !/::\z/ } keys %{$package =~ s{/}{::}gr . '::'};
}

sub _has_package {
    my $file = shift;
    return 1 if ref $file;
    open my $in, '<:raw', $file or return 1;
    while (my $line = <$in>) { return 1 if $line =~ /^\s*package\s+[\w:]/ }
    return 0;
}

# The working directory, by whatever name.
sub _is_here {
    my ($device, $inode) = stat shift;
    my @here = stat q{.};
    return defined $inode && @here && $device == $here[0] && $inode == $here[1];
}

# Of variables: one without a value, as `for ($ENV{HOME})` leaves behind, is none to a new process.
sub _is_set { my ($before, $now) = @_; return defined $now && (!defined $before || $before ne $now) }

sub _differs { my ($one, $other) = @_; return ($one // '') ne ($other // '') }

# Of handlers in %SIG: one that is not set is the default.
sub _is_another {
    my ($one, $other) = map { length $_ ? $_ : 'DEFAULT' } map { $_ // '' } @_;
    return $one ne $other;
}

sub _set_globals {
    my $values = shift;
    no strict 'refs';
    no warnings 'once';
    ${$_} = $values->{$_} for keys %$values;
    return;
}

# All of them: the script's, or those of a new process.
sub _set_switches {
    my $wanted = shift;
    for my $module (keys %SWITCHES) {
        next if !$INC{$module};
        Howdah::XS::set_values($first_switches{$module} //= _first_switches($module));
    }
    _set_globals($wanted) if $wanted;
    return;
}

# References to them, each before its value.
sub _first_switches {
    my $switches = $SWITCHES{shift()};
    no strict 'refs';
    return [map { \${$_}, $switches->{$_} } keys %$switches];
}

# Those that are not what the module begins with.
sub _switches {
    no strict 'refs';
    my %set;
    for my $switches (@SWITCHES{grep { $INC{$_} } keys %SWITCHES}) {
        for my $name (keys %$switches) { $set{$name} = ${$name} if _differs(${$name}, $switches->{$name}) }
    }
    return %set ? \%set : undef;
}

# `use open qw(:std ...)` and the like: taken off again, so that other scripts do without.
sub _layers {
    my %layers;
    for my $name (qw(STDIN STDOUT STDERR)) {
        no strict 'refs';
        my @all       = PerlIO::get_layers(*{"main::$name"}, output => $name ne 'STDIN');
        my @own       = grep { !/\A(?:unix|perlio)\z/ } @all or next;
        my ($encoded) = grep { /encoding/ } @own;
        $layers{$name} = join '', map { ":$_" } grep { $_ ne 'utf8' || !$encoded } @own;
        binmode *{"main::$name"}, ':pop' for grep { /encoding|crlf/ } @own;
        binmode *{"main::$name"};
    }
    return %layers ? \%layers : undef;
}

sub _set_layers {
    my $layers = shift;
    no strict 'refs';
    binmode *{"main::$_"}, $layers->{$_} for keys %$layers;
    return;
}

1;

__END__

=encoding utf-8

=head1 NAME

Howdah::CGI::State - what of perl's state is a CGI script's own

=head1 DESCRIPTION

For L<Howdah::CGI::Script>: C<%ENV>, C<%SIG>, C<@INC>, C<%INC>, the working directory, the umask, C<$|>, layers of the standard handles, where standard error
goes,
the switches of CGI.pm and CGI::Carp, and where L<FindBin> finds a script.

=head2 note

Remembers how it is without any script.

=head2 begin(\%effects, \%variables, $directory, $file)

Before a script is compiled or runs.

=head2 effects(\%before, $directory)

What compiling it has changed, for C<begin>. C<%before> was its C<%ENV>, C<$directory> where it was.

=head2 end($left)

Puts things back. C<$left> is what C<Howdah::XS::restore_process> said.

=head2 forget_request

What CGI.pm has of it, behind a script, for its uploads are in files.

=head2 restore_handlers, forget_libraries

Parts of C<end>.

=cut
