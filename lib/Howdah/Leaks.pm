package Howdah::Leaks;
use v5.16;
use warnings;

use Howdah::XS ();

our %IGNORE_CLASS;

# The objects that are left, in the words of Devel::Leak::Object.
sub report {
    my ($class, $records) = (@_, Howdah::XS::leaks() // '');
    my (%objects, %places);
    for (grep { /^object\t/ } split /\n/, $records) {
        my (undef, $name, $file, $line, undef, undef, undef, $count) =
            map { s/%([0-9a-f]{2})/chr hex $1/ger } split /\t/;
        next if $IGNORE_CLASS{$name};
        $objects{$name} += $count;
        $places{$name}{$file}{$line} += $count;
    }
    my $text = "Tracked objects by class:\n";
    $text .= sprintf "\t%-40s %d\n", $_, $objects{$_} for sort keys %objects;
    $text .= "\nSources of leaks:\n";
    for my $name (sort keys %places) {
        $text .= "$name\n" . join '', map { _lines($_, $places{$name}{$_}) } sort keys %{$places{$name}};
    }
    return $text;
}

sub _lines {
    my ($file, $lines) = @_;
    return map { sprintf "%6d from %s line: %s\n", $lines->{$_}, $file, $_ } sort { $a <=> $b } keys %$lines;
}

1;

__END__

=encoding utf-8

=head1 NAME

Howdah::Leaks - print which objects are left when a worker ends

=head1 SYNOPSIS

  plackup -MHowdah::Leaks -s Howdah --max-workers=1 --max-requests 100 app.psgi
  howdah --leak-report --workers 1 --max-requests 100 app.psgi

=head1 DESCRIPTION

Each worker notes which objects its requests bless, and prints at its end which of them are left, and where they were
blessed, to the error log, in the form that L<Devel::Leak::Object> has:

  Tracked objects by class:
          XXX                                      100

  Sources of leaks:
  XXX
     100 from /srv/app.psgi line: 3

Objects that were made while the application was loaded do not count, nor do those that C code blesses. To look for leaks
in a server that runs already, see C<howdah leaks>.

C<%Howdah::Leaks::IGNORE_CLASS> may hold classes that are not to be reported.

=head1 METHODS

=head2 report

The report as text. For L<Howdah::Worker>.

=cut
