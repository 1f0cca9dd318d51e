package Howdah::Builder;

# How Build.PL builds: cargo makes the binary and the static library of crates/wire, then Module::Build
# compiles xs/ and links it with that library. Called by ./Build; never installed.
use strict;
use warnings;

use File::Basename qw(dirname);
use File::Copy ();
use File::Path qw(mkpath);
use File::Spec::Functions qw(catfile);
use Howdah::ForkObject;
use Howdah::Install;
use Howdah::Rust;
use Module::Build;
our @ISA = ('Module::Build');

# What Rust's standard library needs from the system when it is linked into another program.
my @SYSTEM_LIBRARIES = qw(-pthread -ldl -lm);

sub ACTION_code {
    my $self = shift;
    Howdah::Rust::remember_target($self->notes('target'));
    Howdah::Rust::build();
    _replace(Howdah::Rust::product('howdah'), 'bin/howdah');
    $self->extra_linker_flags(Howdah::Rust::product('libhowdah_wire.a'), _linker_flags(), @SYSTEM_LIBRARIES);
    $self->SUPER::ACTION_code(@_);
    Howdah::ForkObject::build($self);
}

# howdah(1) comes from the declarations of the options, not from POD.
sub ACTION_manpages {
    my $self = shift;
    $self->SUPER::ACTION_manpages(@_);
    my $page = catfile($self->blib, 'bindoc', 'howdah.1');
    return if $self->up_to_date('bin/howdah', $page);
    mkpath(dirname($page));
    open my $out, '>', $page or die "cannot write $page: $!\n";
    print {$out} qx(bin/howdah man) or die "bin/howdah man failed\n";
    close $out or die "cannot write $page: $!\n";
}

sub ACTION_install {
    my $self = shift;
    $self->SUPER::ACTION_install(@_);
    Howdah::Install::part(map { ($self->destdir // '') . $self->install_destination($_) } qw(script arch));
    return;
}

# Module::Build compares an object with its own source alone; a new layout in a header must recompile too,
# and a new version must reach the object that is asked for it.
sub compile_c {
    my ($self, $file, @args) = @_;
    my $object  = $self->cbuilder->object_file($file);
    my @sources = (glob('xs/*.h'), $self->perl_file, $file =~ m{^lib/} ? 'lib/Howdah.pm' : ());
    unlink $object if -e $object && (!$self->up_to_date(\@sources, $object) || _has_come_since($object));
    return $self->SUPER::compile_c($file, @args);
}

# A file that is as old as the choice of the perl to compile for: what was compiled for another one does not fit this.
sub perl_file {
    my $self = shift;
    my $file = catfile($self->config_dir, 'perl');
    my $perl = join "\n", map { $self->config($_) // '' } qw(archlibexp version usemultiplicity ccflags optimize);
    return $file if _read($file) eq $perl;
    open my $out, '>', $file or die "cannot write $file: $!\n";
    print {$out} $perl;
    close $out or die "cannot write $file: $!\n";
    return $file;
}

sub _read {
    my $file = shift;
    open my $in, '<', $file or return '';
    local $/ = undef;
    return <$in> // '';
}

# Whether the header for static probes (xs/probes.h) was installed after it was compiled without. A package's file is as old
# as the package, but not its inode.
sub _has_come_since {
    my $object   = shift;
    my $compiled = (stat $object)[9];
    return grep { ((stat)[10] // 0) > $compiled } '/usr/include/sys/sdt.h', glob '/usr/include/*/sys/sdt.h';
}

# The same for the Rust library that is linked in.
sub link_c {
    my ($self, $spec) = @_;
    my $module = $spec->{lib_file};
    unlink $module if -e $module && !$self->up_to_date(Howdah::Rust::product('libhowdah_wire.a'), $module);
    return $self->SUPER::link_c($spec);
}

# A checkout has no MANIFEST, and that is no reason to warn; `./Build manifest` writes one for CPAN.
sub check_manifest { return -e 'MANIFEST' ? shift->SUPER::check_manifest(@_) : 1 }
sub find_dist_packages { return -e 'MANIFEST' ? shift->SUPER::find_dist_packages(@_) : {} }

# Rust's symbols are for our own C files; another module may carry another Rust library. Functions are looked up once,
# when the zygote loads the module, not in each worker.
sub _linker_flags { $^O eq 'linux' ? ('-Wl,--exclude-libs,ALL', '-Wl,--gc-sections', '-Wl,-z,now') : () }

# A running howdah keeps the old file, and the new one appears whole.
sub _replace {
    my ($from, $to) = @_;
    return if -e $to && (stat $to)[9] >= (stat $from)[9] && -s $to == -s $from;
    mkpath(dirname($to));
    File::Copy::copy($from, "$to.new") or die "cannot copy $from to $to.new: $!\n";
    chmod 0755, "$to.new" or die "cannot make $to.new executable: $!\n";
    rename "$to.new", $to or die "cannot put $to in place: $!\n";
}

1;
