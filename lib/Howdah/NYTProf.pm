package Howdah::NYTProf;
use v5.16;
use warnings;

use File::Spec ();

my $file;

# In a zygote, before the application is compiled: later it would be too late for its subs and statements.
sub load {
    my $class = shift;

    # What the operator has set otherwise still counts. Children that the application forks have nowhere to write to.
    local $ENV{NYTPROF} = join ':', grep { length } $ENV{NYTPROF},
        'start=no:forkdepth=0:addpid=0:addtimestamp=0:sigexit=0';
    eval { require Devel::NYTProf; 1 } or die _missing($@);
    return;
}

# In the worker. Devel::NYTProf wants a name that is not there yet; the file loses it at once, so that none is left behind.
sub begin {
    my $class = shift;
    my $dir   = File::Spec->tmpdir . "/howdah-nytprof-$$-" . int rand 2**31;
    mkdir $dir, oct 700 or die "the worker cannot make a temporary directory: $!; see TMPDIR\n";
    DB::enable_profile("$dir/out");
    open $file, '<', "$dir/out" or die "the profile cannot be read: $!\n";
    unlink "$dir/out";
    rmdir $dir;
    return;
}

# A handle of the file, which is whole then, or a sentence that says why there is none. Called by xs/child.c.
sub end {
    my $class = shift;
    my $made  = $file or return 'this worker does not run under Devel::NYTProf';
    undef $file;
    DB::finish_profile();
    return 'there is no more room below TMPDIR, so the profile is not whole' if _is_full();
    return -s $made ? $made : 'Devel::NYTProf has written nothing: see TMPDIR, and the error log';
}

# Devel::NYTProf tells of it on standard error only. What it has written is still there, so there is no room for more.
sub _is_full {
    open my $more, '+>', undef or return 1;
    print {$more} "\0" x 8192;
    return !close $more;
}

sub _missing {
    my $error = shift;
    return $error if $error !~ m{^Can't locate Devel/NYTProf};
    return
        'Devel::NYTProf is not installed for the perl of the application: on Debian, apt install libdevel-nytprof-perl,'
        . " else cpanm Devel::NYTProf; howdah profile without --nytprof does not need it\n";
}

1;

__END__

=encoding utf-8

=head1 NAME

Howdah::NYTProf - a worker under Devel::NYTProf

=head1 DESCRIPTION

C<howdah profile --nytprof> has one more zygote started, which loads L<Devel::NYTProf> before the application, and forks one
worker. Applications have no business here.

=head1 METHODS

=head2 load

Loads Devel::NYTProf, which writes nothing yet. Dies with a sentence when it is not installed.

=head2 begin

Has it write into a file without a name from now on.

=head2 end

Ends that. A handle of the file, or a sentence that says why there is none.

=cut
