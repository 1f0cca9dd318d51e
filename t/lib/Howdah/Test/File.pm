package Howdah::Test::File;

# Files that a test writes.
use strict;
use warnings;

use Exporter qw(import);
use File::Path qw(make_path);

our @EXPORT_OK = qw(write_file);

# Writes text and an end of line, making the directories above; gives the path.
sub write_file {
    my ($file, $text) = @_;
    make_path($file =~ s{/[^/]+\z}{}r);
    open my $out, '>', $file or die "cannot write $file: $!";
    print {$out} "$text\n";
    close $out or die "cannot write $file: $!";
    return $file;
}

1;
