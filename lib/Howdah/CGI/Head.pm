package Howdah::CGI::Head;
use v5.16;
use warnings;

use constant {LONGEST => 65_536, SHOWN => 80};

my $TOKEN = qr/[-!#\$%&'*+.^_`|~0-9A-Za-z]+/;
my $CODED = qr/(?:\A|,)[ \t]*(?:(?:x-)?(?:gzip|compress)|deflate|br|zstd)[ \t]*(?:,|\z)/i;
my $FIRST = 'a script whose name begins with nph- has to begin with a status line, as HTTP/1.1 200 OK';

# The most frequent head of all: one field, and nothing to ask about it.
my $PLAIN = qr/\A(Content-Type): ?([\x20-\x7e]{0,1000}[\x21-\x7e])\r?\n\r?\n/i;

# Takes the head from the beginning of what was printed; undef while it has not ended. {status, fields => [...]} or {redirect}.
sub take {
    my (undef, $printed, $nph) = @_;
    if (!$nph && $$printed =~ $PLAIN) {
        my $fields = [$1, $2];
        substr $$printed, 0, $+[0], '';
        return {status => 200, fields => $fields};
    }
    my ($self, $taken) = ({fields => [], lines => 0, nph => $nph, size => 0}, 0);
    while ($$printed =~ /\G([^\n]*)\n/gc) {
        my $line = $1 =~ s/\r\z//r;
        $taken = pos $$printed;
        $self->{lines}++;
        die _too_long() if $taken > LONGEST;
        my $done = _add_line($self, $line) // next;
        substr $$printed, 0, $taken, '';
        return $done;
    }
    pos($$printed) = undef;
    die _too_long() if length $$printed > LONGEST;
    return;
}

# Why there is none, when the output has ended.
sub unended {
    my (undef, $printed) = @_;
    my ($lines, $last) = ($printed =~ tr/\n//, $printed =~ /([^\n]*)\z/);
    return "it has ended without any output\n" if $printed eq '';
    return "its output ends after line $lines of its header, which no empty line has ended\n" if $last eq '';
    return
          'its output ends within '
        . ($lines ? 'line ' . ($lines + 1) . ' of its header' : 'its first line') . ', "'
        . _excerpt($last) . "\"\n";
}

sub _add_line {
    my ($self, $line) = @_;
    if ($self->{nph} && !$self->{status}) { $self->{status} = _status_line($self, $line); return }
    return _end($self) if $line eq '';
    my ($name, $value) = _field($self, $line);
    return if $value eq '';
    my $known = lc $name;
    my $again = $self->{seen}{$known};
    die _fault(
        $self, $line,
        'codings of the transfer are the server\'s: say Content-Encoding where the body is so encoded'
    ) if $known eq 'transfer-encoding' && $value =~ $CODED;
    if ($known eq 'status') { $self->{nph} or _set_status($self, $line, $value) }
    elsif ($known =~ /\A(?:content-length|content-type|location)\z/) {
        $value = _length($self, $line, $value) if $known eq 'content-length';
        die _fault($self, $line, _before($known, $again)) if defined $again && $again ne $value;
        _push($self, $line, $name, $value) if !defined $again;
    }
    else { _push($self, $line, $name, $value) }
    $self->{seen}{$known} = $value;
    return;
}

sub _push {
    my ($self, $line, $name, $value) = @_;
    push @{$self->{fields}}, $name, $value;
    $self->{size} += length($name) + length($value) + 4;
    die _fault($self, $line, 'with it the header is longer than ' . LONGEST . ' bytes') if $self->{size} > LONGEST;
    return;
}

sub _before {
    my ($known, $value) = @_;
    return $known eq 'content-length'
        ? "the Content-Length was $value before"
        : 'it was "' . _excerpt($value) . '" before';
}

sub _field {
    my ($self, $line) = @_;
    die _fault($self, $line, 'a line of the header must not go on in the next one') if $line =~ /\A[ \t]/;
    my ($name, $value) = split /:/, $line, 2;
    if (!defined $value) {
        die _fault(
            $self, $line,
            $line =~ m{\AHTTP/}
            ? 'a status line is only for scripts whose names begin with nph-, others print a Status field'
            : 'that is no header field; an empty line has to come before the body'
        );
    }
    $name =~ /\A$TOKEN\z/ or die _fault($self, $line, 'that has a name that no header field can have');
    die _fault($self, $line, sprintf 'that has the control character \x%02X in its value', ord $1)
        if $value =~ /([\x00-\x08\x0a-\x1f\x7f])/;
    return ($name, $value =~ s/\A[ \t]+|[ \t]+\z//gr);
}

sub _set_status {
    my ($self, $line, $value) = @_;
    my ($status) = $value =~ /\A([2-9][0-9][0-9])(?:[ \t]|\z)/
        or die _fault($self, $line, 'a Status is a number from 200 to 999, and perhaps words behind it');
    die _fault($self, $line, "the Status was $self->{status} before")
        if $self->{status} && $self->{status} != $status;
    $self->{status} = $status;
    return;
}

sub _status_line {
    my ($self, $line) = @_;
    my ($status) = $line =~ m{\AHTTP/[0-9](?:\.[0-9])? ([1-9][0-9][0-9])(?:[ \t]|\z)}
        or die _fault($self, $line, $FIRST);
    die _fault($self, $line, 'the connection is not the script\'s, so that it cannot change its protocol')
        if $status == 101;
    return $status;
}

sub _length {
    my ($self, $line, $value) = @_;
    return $value =~ s/\A0+(?=.)//r if $value =~ /\A0*[0-9]{1,18}\z/;
    die _fault($self, $line, 'that is no number of bytes');
}

# An empty line.
sub _end {
    my $self = shift;
    if ($self->{nph}) {
        return {status => $self->{status}, fields => $self->{fields}} if $self->{status} >= 200;
        @$self{qw(status fields seen)} = (undef, [], {});    # interim ones come before the one that counts
        return;
    }
    my $location = $self->{seen}{location};
    my %fields   = %{$self->{seen} // {}};
    delete @fields{qw(connection content-length content-type keep-alive location)};
    delete @fields{qw(proxy-connection te trailer transfer-encoding upgrade)};
    if (!$self->{status} && defined $location) {
        return {redirect => _local($self, $location)} if $location =~ m{\A/[^#]*\z} && !%fields;
        $self->{status} = 302;
    }
    $self->{status} //= 200 if defined $self->{seen}{'content-type'};
    $self->{status} or die _fault_at_end($self, 'no Content-Type, Location or Status came before that');
    return {status => $self->{status}, fields => $self->{fields}};
}

# A path and a query as a request could have them.
sub _local {
    my ($self, $location) = @_;
    my $why = 'the Location is "' . _excerpt($location) . '", where % has no two hexadecimal digits behind it';
    die _fault_at_end($self, $why) if $location =~ /%(?![0-9A-Fa-f]{2})/;
    return $location =~ s/([^!-~])/sprintf '%%%02X', ord $1/ger;
}

sub _excerpt {
    my $text  = shift;
    my $shown = substr $text, 0, SHOWN;
    my %short = ("\t" => '\t', "\r" => '\r', '"' => '\"', '\\' => '\\\\', q{'} => q{\'});
    $shown =~ s/([^ -~]|["\\'])/$short{$1} \/\/ sprintf '\x%02x', ord $1/ge;
    return $shown . (length $text > SHOWN ? '...' : '');
}

sub _fault {
    my ($self, $line, $why) = @_;
    return "line $self->{lines} of its output is \"" . _excerpt($line) . "\": $why\n";
}

sub _fault_at_end {
    my ($self, $why) = @_;
    return ($self->{lines} == 1 ? 'its output begins' : 'its header ends') . " with an empty line: $why\n";
}

sub _too_long { return 'its header is longer than ' . LONGEST . " bytes, and has not ended by an empty line\n" }

1;

__END__

=encoding utf-8

=head1 NAME

Howdah::CGI::Head - what a CGI script prints becomes the head of a response

=head1 SYNOPSIS

  my $head = Howdah::CGI::Head->take(\$printed, $is_nph);    # undef: there must come more

=head1 DESCRIPTION

RFC 3875 section 6, by the same rules as the host of scripts that are processes (F<crates/cgi/src/head>).

=head2 take(\$printed, $nph)

Takes the head, and the empty line, from the beginning of the string. C<{status, fields}> with names and values in turn, or
C<{redirect}> with the path and query of a local redirect. Empty while it is not complete. Dies with the reason, in words for
the log, when it is no head.

=head2 unended($printed)

The reason for the log when the output has ended before its head.

=cut
