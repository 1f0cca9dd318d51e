#!/usr/bin/env perl
# Shows of each of these files how it differs from perltidy's version (.perltidyrc), and fails if one does; after --fix it
# writes that version instead. For tools/lint-perl: one process for many files, which is most of the time that perltidy takes.
use strict;
use warnings;

use File::Temp ();
use Perl::Tidy ();

my $fix    = @ARGV && $ARGV[0] eq '--fix' && shift @ARGV;
my $untidy = 0;
for my $file (@ARGV) {
    my ($tidied, $complaints) = ('', '');
    my $failed = Perl::Tidy::perltidy(
        argv        => ['--standard-error-output'],
        perltidyrc  => '.perltidyrc',
        source      => $file,
        destination => \$tidied,
        stderr      => \$complaints,
    );
    die "$file: $complaints" if $failed || $complaints ne '';
    next if $tidied eq content($file);
    if ($fix) {
        open my $out, '>:raw', $file or die "cannot write $file: $!\n";
        print {$out} $tidied;
        close $out or die "cannot write $file: $!\n";
    }
    else {
        $untidy = 1;
        show($file, $tidied);
    }
}
exit $untidy;

sub content {
    my $file = shift;
    open my $in, '<:raw', $file or die "cannot read $file: $!\n";
    local $/;
    return <$in>;
}

# The first lines of the difference.
sub show {
    my ($file, $tidied) = @_;
    my $other = File::Temp->new;
    binmode $other;
    print {$other} $tidied;
    close $other or die $!;
    open my $diff, '-|', 'diff', '-u', '--label', $file, '--label', "$file as perltidy has it", $file, "$other"
        or die $!;
    while (<$diff>) {
        print if $. <= 20;
    }
    close $diff;
    return;
}
