package Howdah::DebugInfo;

# Keeps debug information apart from what is installed: DIR/.debug/NAME.debug beside DIR/NAME, where gdb, perf, addr2line
# and Howdah's own backtraces look for it by themselves. Functions keep their names without it, so that it may also be
# removed. Called by Howdah::Builder; never installed.
use strict;
use warnings;

use File::Basename qw(basename dirname);
use File::Path qw(mkpath);
use File::Spec::Functions qw(catfile);

# Does it for one file, unless that was done before. False when there are no means.
sub part {
    my $file = shift;
    my $dir  = catfile(dirname($file), '.debug');
    my $kept = catfile($dir, basename($file) . '.debug');
    mkpath($dir);
    my $mode = (stat $file)[2] & oct 7777;
    _objcopy('--only-keep-debug', '--compress-debug-sections=zlib', $file, "$kept.new") or return 0;
    chmod 0644, "$kept.new" or die "cannot make $kept.new readable: $!\n";
    rename "$kept.new", $kept or die "cannot put $kept in place: $!\n";
    _objcopy('--strip-debug', "--add-gnu-debuglink=$kept", $file, "$file.new") or return 0;
    chmod $mode, "$file.new" or die "cannot set the mode of $file.new: $!\n";
    rename "$file.new", $file or die "cannot put $file in place: $!\n";
    return 1;
}

# Comes with the linker, so that it is there where Howdah was built.
sub _objcopy {
    my @arguments = @_;
    return system($ENV{OBJCOPY} || 'objcopy', @arguments) == 0;
}

1;
