package Howdah::Test::File;

# Files that a test reads and writes.
use strict;
use warnings;

use Exporter qw(import);
use File::Path qw(make_path);

our @EXPORT_OK = qw(read_file read_if_any write_file);

# All of it, as bytes.
sub read_file {
    my $file = shift;
    open my $in, '<:raw', "$file" or die "cannot read $file: $!";
    local $/;
    return scalar(<$in>) // '';
}

# The same; nothing of one that is not there, or cannot be read.
sub read_if_any {
    my $file = shift;
    local $@;
    return eval { read_file($file) } // '';
}

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
