package Howdah::CGI::Source;

# No lexical variable and no pragma is in sight here, so that a script compiles as if it stood alone. evalbytes has the text
# taken for bytes, unless it says `use utf8`, and lets source filters work.
sub evaluate { return CORE::evalbytes($_[0]) }    ## no critic (RequireUseStrict)

use v5.16;
use warnings;

use Howdah::XS ();
use Symbol ();

# A here-document: text, whatever it says. `<<` that begins none finds no such end.
my $HERE = qr/<<~?(?|[ \t]*"([^"\n]+)"|[ \t]*'([^'\n]+)'|\\?([A-Za-z_]\w*))[^\n]*\n(?s:.*?)^[ \t]*\g1$/m;

# What could end the code, at the beginning of a line or behind a statement: a token, or ^D or ^Z, with which some editors end a file.
# Behind a `#` it is most likely in a comment.
my $END = qr/^(?:[^#\n]*[;}])?[ \t]*\K(?:__(?:END|DATA)__(?!\w)|[\x04\x1a])/m;

my @noted;    # package and hints where the code that is compiled ends

# What the file says. Dies when it cannot be run here.
sub read_file {
    my ($class, $file) = @_;
    open my $in, '<:raw', $file or die "$file: cannot be read: $!\n";
    my $text = do { local $/; <$in> }
        // '';
    die "a CGI script cannot be kept whose path has a quotation mark or a line break: rename it, or use mode=fork\n"
        if $file =~ /["\r\n]/;
    my $mark = $text =~ s/\A\xef\xbb\xbf// ? 3 : 0;
    $text =~ m{\A\#!.*?perl[\d.]*(?:\s|\z)}
        or die "$file is not Perl, by its first line: run it with mode=exec or mode=auto\n";
    my $package = 'Howdah::CGI::Kept::' . $file =~ s{([^A-Za-z0-9])}{sprintf '_%02x', ord $1}ger;
    my $self    = bless {file => $file, mark => $mark, text => $text, package => $package}, $class;
    $self->{switches} = $self->_switches;
    die "$file: ", _refusal($1) if $self->_code =~ /^[ \t]*use[ \t]+(CGI::Fast|FCGI)\b(?!::)/m;
    return $self;
}

# Where a module of the script's own has the loop, which the text does not tell. Without this the first request of each worker
# would be answered, and no other.
sub refuse_loop {
    no warnings qw(prototype redefine);
    *FCGI::Accept = sub { die _refusal('FCGI') };
    return;
}

sub warns { return $_[0]{switches} =~ /w/i ? 1 : 0 }

# Whether it may have formats.
sub has_format { return $_[0]{text} =~ /^\s*format\b/m }

# The one that it is given, and those that the script says it is in.
sub packages { my $self = shift; return ($self->{package}, $self->named_packages) }

sub named_packages {
    my $self = shift;
    my %seen = (main => 1, $self->{package} => 1);
    return grep { !$seen{$_}++ } $self->{text} =~ /^\s*package\s+([\w:]+)/mg;
}

# Compiles it to a sub: {code, data => where DATA begins if there is that, package and hints of the place}. Dies with perl's
# words.
#
# Where __END__, ^D and ^Z end the code, and where they stand in a string, only perl knows. So the first that could is taken for
# the end; if what is before that does not compile, the next, and at last the end of the file.
sub compile {
    my $self = shift;
    my $why;
    for my $at ($self->_cuts) {
        my $code = $self->_compile_until($at);
        return {code => $code, data => $self->_behind($at), package => $self->_package_at($at), hints => $noted[1]}
            if $code;
        $why = $@ if !defined $why || $why =~ /^Can't find string terminator/;
    }
    $why =~
        s/\A(?=filter_del )/$self->{file} has a source filter, for which it must be run with mode=fork or mode=exec: /;
    die $why;
}

# The text without POD and data, as far as a pattern can tell.
sub _code {
    my $self = shift;
    return $self->{text} =~ s/^__(?:END|DATA)__\b.*//msr =~ s/^=[a-z].*?(?:^=cut\b|\z)//gimsr;
}

# Called by the code itself, at its end.
sub note { @noted = @_; return }

# Offsets of what could end the code; undef for the end of the file. Within POD, as far as a pattern can tell, the token is
# most likely none, and perl does not say so: what is before it compiles.
sub _cuts {
    my $self = shift;
    my (@cuts, @in_pod);
    while ($self->{text} =~ /$END/g) {
        my $at = $-[0];
        my ($command) = substr($self->{text}, 0, $at) =~ /(?s:.*)^=([A-Za-z]\w*)/m;
        push @{($command // 'cut') eq 'cut' ? \@cuts : \@in_pod}, $at;
    }
    return (@cuts, undef, @in_pod);
}

# The package whose DATA reads what follows the token. By __END__ that is the script's own, as it is main's of a program, wherever that
# stands.
sub _package_at {
    my ($self, $at) = @_;
    return defined $at && substr($self->{text}, $at) =~ /\A__END__/ ? $self->{package} : $noted[0];
}

# Offset in the file of what follows the token; undef where there is none.
sub _behind {
    my ($self, $at) = @_;
    return undef if !defined $at || substr($self->{text}, $at, 1) ne '_';    ## no critic (ProhibitExplicitReturnUndef)
    my $end = index $self->{text}, "\n", $at;
    return $self->{mark} + ($end < 0 ? length $self->{text} : $end + 1);
}

# The end of a comment, a statement and POD, in this order, lets the closing brace be one.
sub _compile_until {
    my ($self, $at) = @_;
    my $code = defined $at ? substr $self->{text}, 0, $at : $self->{text};
    $code =~ s/\r\n/\n/g if $code =~ /\A[^\n]*\r\n/;
    my $package = $self->{package};
    $code =~
        s/$HERE(*SKIP)(*FAIL)|(?:^|[;{}])[ \t]*package\s+\Kmain(?=\s*[;{])/$package/mg;  # where it comes back to itself
    Symbol::delete_package($package);
    local $^W = $self->warns;
    my $start = "package $package;sub __script__ {Howdah::XS::enter_script();\n#line 1 \"$self->{file}\"\n";
    my $end   = "\n;\n=pod\n\n=cut\n\nBEGIN { Howdah::CGI::Source::note(__PACKAGE__, \$^H) } } 1";
    evaluate("$start$code$end")
        or return;
    no strict 'refs';
    return \&{"$package\::__script__"};
}

sub _refusal {
    my $loop = shift;
    return "the loop of $loop waits for further requests, of which a kept script has one in each run: "
        . "run it with mode=fork or mode=exec, or use CGI\n";
}

# perl has more than these only for a whole process.
sub _switches {
    my $self      = shift;
    my ($words)   = $self->{text} =~ m{\A\#!.*?perl[\d.]*[ \t]+(-[^\r\n]*)};
    my $switches  = join '', ($words // '') =~ /\G-([^\s#*-]+)[ \t]*/g;   # perl looks no further than to `--` and `-*-`
    my ($strange) = $switches =~ /([^wWX])/ or return $switches;
    die "$self->{file}: perl can have the switch -$strange of its first line only for a whole process: "
        . "run it with mode=fork or mode=exec\n";
}

1;

__END__

=encoding utf-8

=head1 NAME

Howdah::CGI::Source - the text of a CGI script becomes a sub

=head1 SYNOPSIS

  my $compiled = Howdah::CGI::Source->read_file('/srv/cgi-bin/hello.cgi')->compile;
  $compiled->{code}->();

=head1 DESCRIPTION

For L<Howdah::CGI::Script>. The script becomes the body of a sub in a package that is named after its path. Line numbers and
C<__FILE__> are those of the file; C<__END__>, C<__DATA__>, ^D and ^Z, POD without end, a byte order mark and lines that end in CRLF are
as perl has them in a program.

=head2 read_file($file)

Dies when the file is no Perl script, or when its C<#!> line has switches that only a process of its own can have.

=head2 compile

Dies with perl's message. The value is a hash: C<code>; C<data>, the offset of what C<DATA> reads, if anything; the
C<package> that has it, and C<hints> of perl at the end of the code.

=head2 refuse_loop

When L<FCGI> is loaded: has its loop die with the way out.

=head2 packages, named_packages, warns

The packages of the script; those that it names itself; whether it has C<-w>.

=head2 evaluate($text), note(...)

Parts of C<compile>.

=cut
