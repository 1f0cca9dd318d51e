package Howdah::CGI::Answer;
use v5.16;
use warnings;

use Howdah::CGI::Head ();

# The response to one request, made of what its script prints.
sub new {
    my ($class, $respond, $nph) = @_;
    return bless {respond => $respond, nph => $nph, printed => ''}, $class;
}

# Why there is none; undef if there is one.
sub fault { return $_[0]{fault} }

# The path of a local redirect, if that is the answer.
sub redirect { return $_[0]{redirect} }

# Takes what must go out now. 1 for more of it, 0 when nobody wants any, -1 when the script has to end.
sub take {
    my ($self, $bytes) = @_;
    local ($@, $SIG{__DIE__});   # the script's: it may be about to print why, and an end of ours is no death of its own
    return 0 if defined $self->{fault} || defined $self->{redirect};
    $self->{printed} .= $bytes;
    my $go = eval { $self->_take };
    return $go if defined $go;
    if (ref $@ ne 'Howdah::ClientGone') { $self->{fault} = "$@" }
    return 0 if !$self->{head};
    $self->{gone} = 1;
    return -1;
}

sub _take {
    my $self = shift;
    my $head = $self->_head or return defined $self->{redirect} ? 0 : 1;
    $self->{writer} //= $self->{respond}->([$head->{status}, $head->{fields}]);
    $self->{writer}->write($self->{printed}) if length $self->{printed};
    $self->{printed} = '';
    return 1;
}

# Takes the rest. Whatever is wrong with it is a fault: the caller has to clean up.
sub finish {
    my ($self, $rest) = @_;
    return if $self->{gone} || defined $self->{fault} || defined $self->{redirect};
    eval { $self->_finish($rest); 1 } or $self->{fault} = "$@";
    return;
}

sub _finish {
    my ($self, $rest) = @_;
    if ($self->{writer}) {
        $self->take($rest) if length $rest;
        return $self->{gone} ? () : $self->{writer}->close;
    }
    $self->{printed} .= $rest;
    my $head = $self->_head;
    return if defined $self->{redirect};
    die Howdah::CGI::Head->unended($self->{printed}) if !$head;
    return $self->{respond}->([$head->{status}, $head->{fields}, [$self->{printed}]]);
}

sub _head {
    my $self = shift;
    return $self->{head} if $self->{head};
    my $head = Howdah::CGI::Head->take(\$self->{printed}, $self->{nph}) or return;
    if (defined $head->{redirect}) { $self->{redirect} = $head->{redirect}; return }
    return $self->{head} = $head;
}

1;

__END__

=encoding utf-8

=head1 NAME

Howdah::CGI::Answer - the response to a request, made of what a CGI script prints

=head1 DESCRIPTION

For L<Howdah::CGI::Keep>. A script that prints no more than is held until it has ended is answered in one piece, with its
length; else what it prints is streamed, and the script waits for a client that takes it slowly.

=head2 new($respond, $nph)

C<$respond> is PSGI's.

=head2 take($bytes), finish($rest)

What must go out now, and what is left at the end.

=head2 fault, redirect

Why there is no response; the path that is to answer instead.

=cut
