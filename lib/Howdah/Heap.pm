package Howdah::Heap;
use v5.16;
use warnings;

# Runs in a child that a worker has forked for it. Returns a handle of a file without a name, or says why there is none.
sub write {    ## no critic (ProhibitBuiltinHomonyms)
    my $class = shift;
    eval { require Devel::MAT::Dumper; 1 } or return _missing();
    open my $file, '+>', undef or return "the worker cannot make a temporary file: $!; see TMPDIR";
    eval { Devel::MAT::Dumper::dumpfh($file); 1 } or return "the heap was not written: $@; see --max-size";
    $file->flush && !$file->error or return "the heap was not written: $!; see --max-size and TMPDIR";
    return $file;
}

sub _missing {
    return
          'Devel::MAT::Dumper is not installed for the perl of the application: on Debian, apt install'
        . ' libdevel-mat-dumper-perl (and libdevel-mat-perl to read what it writes), else cpanm Devel::MAT;'
        . ' howdah heap --why CLASS needs neither';
}

1;

__END__

=encoding utf-8

=head1 NAME

Howdah::Heap - the heap of a worker as a file

=head1 DESCRIPTION

C<howdah heap> has a worker fork between two requests, and the child write what Perl has in memory, in the format of
L<Devel::MAT>. Applications have no business here.

=head1 METHODS

=head2 write

A handle of a temporary file with the heap, or a sentence that says why there is none.

=cut
