package Howdah::CGI::Handles;
use v5.16;
use warnings;

use Howdah::XS ();

# The handles as they were first: a script may put others under their names. Where standard error goes.
my (%first, $errors);

# Before scripts are compiled, where the process has these handles for other things.
sub note {
    Howdah::XS::note_names();
    $first{STDERR} = *STDERR{IO};
    $errors = _place(*STDERR);
    Howdah::XS::errors_are_whole();
    return;
}

# Makes the standard handles of this worker those of scripts. Once, before the first.
sub open_all {
    %first = (STDIN => *STDIN{IO}, STDOUT => *STDOUT{IO}, STDERR => *STDERR{IO});
    _open_stdin();
    _open_stdout();
    Howdah::XS::errors_are_whole() or _open_stderr();
    $errors = _place(*STDERR);
    return;
}

# Puts back what a script has closed, reopened, tied, given layers, or deleted by name. In the zygote that is standard error alone: workers
# open the other two anew.
sub restore {
    Howdah::XS::restore_names();
    Howdah::XS::errors_are_whole() or _open_stderr();
    return if !$first{STDIN};
    Howdah::XS::stdin_is_whole() or _open_stdin();
    Howdah::XS::output_is_whole() or _open_stdout();
    return;
}

# Where a script has put standard error; undef if it has not.
sub moved_errors {
    return if Howdah::XS::errors_are_whole();
    my $place = _place(*STDERR) // return;
    return \*STDOUT if $place eq (_place(*STDOUT) // '');
    return if $place eq $errors;
    open my $there, '>>&', \*STDERR or return;
    return $there;
}

# Puts it there again.
sub move_errors {
    my $there = shift;
    open STDERR, '>&', $there or die "cannot move standard error: $!\n";
    return;
}

# A file, whatever its descriptor.
sub _place {
    my ($device, $inode) = stat shift;
    return defined $inode ? "$device $inode" : undef;
}

sub _free {
    my $name = shift;
    no strict 'refs';
    no warnings;
    if (*{"main::$name"}{IO} != $first{$name}) {
        undef *{"main::$name"};    # by *STDERR = *STDOUT what has one name has the other, for good
        *{"main::$name"} = $first{$name};
    }
    untie *{"main::$name"};
    close *{"main::$name"};
    return;
}

sub _open_stdin {
    no warnings 'io';    # where the script has closed STDOUT, too, STDIN takes its place in perl's list
    _free('STDIN');
    Howdah::XS::point_stdin();
    open STDIN, '<&=', 0 or die "cannot open standard input: $!\n";
    return;
}

sub _open_stdout {
    _free('STDOUT');
    Howdah::XS::point_output();
    open STDOUT, '>&=', 1 or die "cannot open standard output: $!\n";
    Howdah::XS::adopt_output();
    return;
}

sub _open_stderr {
    _free('STDERR');
    Howdah::XS::point_errors();
    open STDERR, '>&=', 2 or die "cannot open standard error: $!\n";
    STDERR->autoflush(1);
    Howdah::XS::adopt_errors();
    return;
}

1;

__END__

=encoding utf-8

=head1 NAME

Howdah::CGI::Handles - STDIN, STDOUT and STDERR of CGI scripts that run in a worker

=head1 DESCRIPTION

For L<Howdah::CGI::Keep>. Standard output goes to the response, see F<xs/output.c>; standard input is the body, see
F<xs/stdin.c>; standard error goes to the error log.

=head2 note

Before scripts are compiled in the zygote.

=head2 open_all

Once in each worker.

=head2 restore

After a script was compiled, and after each run: opens anew what is no longer as it was.

=head2 moved_errors, move_errors($there)

Where a script has put standard error while it was compiled, and puts it there again.

=cut
