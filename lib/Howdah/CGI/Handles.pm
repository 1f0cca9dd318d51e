package Howdah::CGI::Handles;
use v5.16;
use warnings;

use Howdah::XS ();

# The handles as they were first: a script may put others under their names.
my %first;

# Makes the standard handles of this worker those of scripts. Once, before the first.
sub open_all {
    %first = (STDIN => *STDIN{IO}, STDOUT => *STDOUT{IO}, STDERR => *STDERR{IO});
    _open_stdin();
    _open_stdout();
    Howdah::XS::errors_are_whole() or _open_stderr();
    return;
}

# Puts back what a script has closed, reopened, tied, or given layers.
sub restore {
    Howdah::XS::stdin_is_whole() or _open_stdin();
    Howdah::XS::output_is_whole() or _open_stdout();
    Howdah::XS::errors_are_whole() or _open_stderr();
    return;
}

sub _free {
    my $name = shift;
    no strict 'refs';
    no warnings;
    *{"main::$name"} = $first{$name} if *{"main::$name"}{IO} != $first{$name};
    untie *{"main::$name"};
    close *{"main::$name"};
    return;
}

sub _open_stdin {
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

=head2 open_all

Once in each worker.

=head2 restore

After each script: opens anew what is no longer as it was.

=cut
