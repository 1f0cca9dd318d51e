package Howdah::ForkObject;

# Builds the object that a script's zygote loads (xs-fork/), apart from XS.so: the process of a script has nothing in it
# but what perl, the script and these few files bring. Called by Howdah::Builder; never installed.
use strict;
use warnings;

use File::Basename qw(dirname);
use File::Path qw(mkpath);
use File::Spec::Functions qw(catfile);

my @FLAGS = qw(-std=gnu11 -Wall -Werror=implicit-function-declaration);

sub build {
    my $build   = shift;
    my $object  = catfile($build->blib, qw(arch auto Howdah CGI Fork Fork.so));
    my @sources = sort glob 'xs-fork/*.c';
    my @beside  = (glob('xs-fork/*.h'), 'xs/wire.h', 'xs/frames.h', $build->perl_file);
    return if $build->up_to_date([@sources, @beside], $object);
    my $compiler = $build->cbuilder;
    my @compiled = map { $compiler->compile(source => $_, extra_compiler_flags => \@FLAGS) } @sources;
    $build->add_to_cleanup(@compiled);
    mkpath(dirname($object));
    $compiler->link(
        module_name        => 'Howdah::CGI::Fork',
        objects            => \@compiled,
        lib_file           => $object,
        extra_linker_flags => ['-Wl,-z,now'],
    );
    return;
}

1;
