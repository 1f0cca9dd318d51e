package Howdah::CGI::Script;
use v5.16;
use warnings;

use B ();
use File::Basename ();
use Howdah ();
use Howdah::CGI::Handles ();
use Howdah::CGI::Source ();
use Howdah::CGI::State ();
use Howdah::XS ();

# perl's flag in $^H for `use utf8`.
use constant HINT_UTF8 => 0x00800000;

# Variables of perl, and what a program finds in them.
my @FIRST = (
    (\$/ => "\n", \$\ => undef, \$, => undef, \$; => "\034", \$" => q{ }),
    (\$: => " \n-", \$^A => q{}, \$^F => 2, \$^I => undef, \$^L => "\f"),
);

my %owner;    # of subs in packages that scripts name: the file that was compiled last

# Compiles a script: $variables is what is in %ENV meanwhile. If that fails, the object has the reason.
sub new {
    my ($class, $file, $version, $variables) = @_;
    my ($base, $directory) = File::Basename::fileparse($file);
    my $self = bless {
        file => $file, directory => $directory, effects => {}, ends => [], version => $version,
        nph  => scalar($base =~ /^nph-/)
        },
        $class;
    my $source = eval { Howdah::CGI::Source->read_file($file) } or return $self->_fail($@);
    my %before = (%$variables, SCRIPT_FILENAME => $file);
    Howdah::CGI::State::begin({}, \%before, $directory, $file);
    FindBin::again() if $INC{'FindBin.pm'};
    Howdah::XS::catch_output();
    my $compiled = $self->_compile($source);
    my $why      = $@;
    $self->{effects}  = Howdah::CGI::State::effects(\%before, $directory);
    $self->{packages} = [grep { !$INC{s{::}{/}gr . '.pm'} } $source->packages];
    my $on_warning = $self->{on_warning} // _handler_of_carp($source->packages);
    $self->{effects}{sig}{__WARN__} = $on_warning if $on_warning;
    $self->{ends}                   = Howdah::XS::take_ends($file, $self->{packages}[0]);
    $self->{printed}                = Howdah::XS::caught_output();
    Howdah::CGI::Handles::restore();
    Howdah::XS::restore_settings();
    Howdah::CGI::State::end(Howdah::XS::LEFT_HANDLERS);
    return $self->_fail($why) if !$compiled;
    @$self{keys %$compiled} = values %$compiled;
    $self->{warns}          = $source->warns;
    $self->{format}         = $source->has_format ? *STDOUT{FORMAT} : undef;
    $self->_tell_shared($source->packages);
    $self->_tell_taken($source->named_packages);
    return $self;
}

# Of the file that was compiled: Howdah::CGI::Place says when there is another.
sub version { return $_[0]{version} }

# Why it cannot be run, in words that name the file.
sub error { return $_[0]{error} }

# The packages whose handles are the script's: its own, which is the first, and those that it names, if they are no module's.
sub packages { return @{$_[0]{packages}} }

# What compiling it has printed, as a BEGIN block may: each run prints that first.
sub printed { return $_[0]{printed} }

# Runs it in the present process, which may be a child when this returns. What it died of, if it did.
sub run {
    my ($self, $variables, $arguments) = @_;
    Howdah::CGI::State::begin($self->{effects}, $variables, $self->{directory}, $self->{file});
    Howdah::CGI::Source->refuse_loop if $INC{'FCGI.pm'};
    $self->_open_data if defined $self->{data};
    $self->_begin_page;
    my $others = Howdah::XS::set_values(\@FIRST);
    local ($^T, $^W) = (time, $self->{warns});
    local (*ARGV, *ARGVOUT);    # what `<>` has open, too
    local $_;
    @ARGV = @$arguments;
    my ($died, @parts) = ('', $self->{code}, @{$self->{ends}});
    local *_ = \@ARGV;          # what the file shifts
    $self->{runs}++;
    ($@, $!, $?) = ('', 0, 0);

    while (my $code = shift @parts) {
        my $end = Howdah::XS::run_script($code, $code == $self->{code}, $self->{runs} > 1);
        unshift @parts, @{Howdah::XS::take_ends($self->{file}, $self->{packages}[0])};  # those that it has evaluated
        $? = 0 if $end == Howdah::XS::ENDED_BY_ITSELF && $code == $self->{code};        # and not that of its last child
        last if $end == Howdah::XS::ENDED_BY_EXEC;    # what it became has no END blocks
        next if $end != Howdah::XS::ENDED_BY_DEATH;
        $died .= Howdah->text_of($@) if ref $@ ne 'Howdah::ClientGone';
        $? = 255;
    }
    Howdah::XS::set_values($_) for \@FIRST, $others;
    return $died;
}

sub _fail {
    my ($self, $why) = @_;
    $why =~ s/^BEGIN not safe after errors.*\n//m;    # one of ours, at the end
    chomp($self->{error} = $why);
    return $self;
}

# exit within a BEGIN block ends just that.
sub _compile {
    my ($self, $source) = @_;
    my ($compiled, $ours);
    my $own = $$;
    local $SIG{__WARN__} = $ours = sub {
        my $text = shift;
        warn $text if $text !~ /^(?:Variable .* will not stay shared|Subroutine \S+ redefined at \Q$self->{file}\E) /;
    };
    Howdah::XS::run_script(sub { $compiled = $source->compile; return });
    Howdah::XS::exit_now($?) if $$ != $own;    # a child that a BEGIN block has forked
    $self->{on_warning} = $SIG{__WARN__} if ($SIG{__WARN__} // '') ne $ours;
    $@ ||= "$self->{file} called exit while it was compiled\n" if !$compiled;
    return $compiled;
}

# CGI::Carp sets its handler of warnings when it is loaded, which is once for all scripts that use it.
sub _handler_of_carp {
    return if !$INC{'CGI/Carp.pm'};
    no strict 'refs';
    my $uses = grep { defined &{"$_\::carp"} && \&{"$_\::carp"} == \&CGI::Carp::carp } @_;
    return $uses ? \&CGI::Carp::warn : undef;
}

# DATA is a handle on the script's own file, as for perl.
sub _open_data {
    my $self = shift;
    no strict 'refs';
    my $handle = \*{"$self->{package}::DATA"};
    open $handle, '<', $self->{file} or return;
    binmode $handle, ':utf8' if $self->{hints} & HINT_UTF8;
    seek $handle, $self->{data}, 0;
    $. = 0;    ## no critic (RequireLocalizedPunctuationVars)
    return;
}

# Formats of STDOUT have one name in all packages; what is printed before a page is the script's.
sub _begin_page {
    my $self = shift;
    no warnings;
    *STDOUT = $self->{format} if $self->{format};
    Howdah::XS::begin_page();
    return;
}

# Named subs have the file's variables as they were in the first request.
sub _tell_shared {
    my ($self, @packages) = @_;
    my @found;
    for my $package (@packages) {
        push @found, map { $self->_shared("sub $_->[0]", $_->[1]) } _subs($package);
    }
    push @found, map { $self->_shared('an END block', $_) } @{$self->{ends}};
    print {*STDERR}
        "howdah: $_ of the first request that the worker serves, for the script is compiled once: make it `our`, "
        . "pass it as an argument, or run the script with mode=fork\n"
        for @found;
    return;
}

# A package that two scripts name is one, with the subs of the script that was compiled last.
sub _tell_taken {
    my ($self, @packages) = @_;
    for my $package (@packages) {
        for my $sub (_subs($package)) {
            my ($name, $code) = @$sub;
            next if (B::svref_2object($code)->FILE // '') ne $self->{file};
            my $other = $owner{"$package\::$name"} // $self->{file};
            $owner{"$package\::$name"} = $self->{file};
            next if $other eq $self->{file};
            print {*STDERR}
                "howdah: $self->{file}: sub $package\::$name takes the place of that of $other, for the scripts of a "
                . "mount share the packages that they name: name them apart, or run one with mode=fork\n";
        }
    }
    return;
}

# Names, and what they are.
sub _subs {
    my $package = shift;
    no strict 'refs';
    my $stash = \%{"$package\::"};
    return map { [$_, \&{"$package\::$_"}] }
        grep { $_ ne '__script__' && ref \$stash->{$_} eq 'GLOB' && defined &{"$package\::$_"} } sort keys %$stash;
}

sub _shared {
    my ($self, $what, $code) = @_;
    my $sub = B::svref_2object($code);
    return if ($sub->FILE // '') ne $self->{file} || !$sub->PADLIST->can('ARRAYelt') || !$sub->START->can('line');
    my @names = map { $_->PV } grep { _is_captured($_) } $sub->PADLIST->ARRAYelt(0)->ARRAY;
    return map { "$self->{file} line " . $sub->START->line . ": $what keeps $_" } @names;
}

sub _is_captured {
    my $name = shift;
    return
           $name->can('FLAGS')
        && defined $name->PV
        && $name->PV =~ /^[\$\@%]./
        && $name->FLAGS & _flag('OUTER')
        && !($name->FLAGS & (_flag('OUR') | _flag('STATE')));
}

# Of the name of a variable; perl calls them so since 5.38.
sub _flag {
    my $flag  = shift;
    my $value = B->can("PADNAMEf_$flag") || B->can("PADNAMEt_$flag");
    return $value->();
}

1;

__END__

=encoding utf-8

=head1 NAME

Howdah::CGI::Script - a CGI script, compiled once

=head1 SYNOPSIS

  my $script = Howdah::CGI::Script->new('/srv/cgi-bin/hello.cgi', $version, \%variables);
  die $script->error if defined $script->error;
  my $died = $script->run(\%variables, \@arguments);

=head1 DESCRIPTION

For L<Howdah::CGI::Keep>.

=head2 new($file, $version, \%variables)

Compiles it, and tells the error log of named subs that use variables of the file. What compiling it changes for it alone, as
handlers of signals by C<use CGI::Carp>, is remembered and set up whenever it runs.

=head2 version

As given.

=head2 error

Why it cannot be run; undef if it can.

=head2 run(\%variables, \@arguments)

Runs it, then its END blocks, each time. Returns what it died of, in perl's words, or the empty string. The caller may be a
child that the script has forked then.

=head2 packages

Its package, and those that it names.

=head2 printed

What it has printed while it was compiled, which each of its answers begins with.

=cut
